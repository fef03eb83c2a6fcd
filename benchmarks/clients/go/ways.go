package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(),
	"lz4":  kgo.Lz4Compression(),
	"zstd": kgo.ZstdCompression(),
}

// Records of a transaction.
const inTransaction = 100

func newProducer(w *work, lingerMs int, more ...kgo.Opt) (*kgo.Client, error) {
	options, err := w.clientOptions()
	if err != nil {
		return nil, err
	}
	options = append(
		options,
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(time.Duration(lingerMs)*time.Millisecond),
		kgo.ProducerBatchMaxBytes(w.Settings.BatchBytes),
		kgo.ProducerBatchCompression(codecs[w.Compression]),
	)
	options = append(options, more...)
	// With idempotence it is always five, and setting it is an error.
	if !w.Settings.Idempotence {
		options = append(
			options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(w.Settings.InFlight),
		)
	}
	return kgo.NewClient(options...)
}

func connected(ctx context.Context, w *work, lingerMs int) (*kgo.Client, error) {
	client, err := newProducer(w, lingerMs)
	if err != nil {
		return nil, err
	}
	if err := client.ProduceSync(ctx, w.record()).FirstErr(); err != nil {
		client.Close()
		return nil, err
	}
	w.connecting++
	return client, nil
}

func (w *work) record() *kgo.Record {
	return &kgo.Record{Topic: w.Topic, Value: w.values.take()}
}

func produce(ctx context.Context, w *work) error {
	client, err := connected(ctx, w, w.Settings.LingerMs)
	if err != nil {
		return err
	}
	defer client.Close()
	var failure error
	// Called by one goroutine at a time; Flush returns after the last call.
	delivered := func(_ *kgo.Record, err error) {
		if err != nil {
			failure = err
			return
		}
		w.settled++
	}
	w.meter.start()
	for range w.Messages {
		client.Produce(ctx, w.record(), delivered)
	}
	err = client.Flush(ctx)
	w.meter.stop()
	if err != nil {
		return err
	}
	return failure
}

func produceSync(ctx context.Context, w *work) error {
	client, err := connected(ctx, w, 0)
	if err != nil {
		return err
	}
	defer client.Close()
	w.meter.start()
	defer w.meter.stop()
	for range w.Messages {
		started := time.Now()
		if err := client.ProduceSync(ctx, w.record()).FirstErr(); err != nil {
			return err
		}
		w.latencies = append(w.latencies, time.Since(started).Seconds())
		w.settled++
	}
	return nil
}

func transact(ctx context.Context, w *work) error {
	client, err := newProducer(w, w.Settings.LingerMs, kgo.TransactionalID(w.Topic+"-transactions"))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := transaction(ctx, client, w, 1); err != nil {
		return err
	}
	w.connecting++
	w.meter.start()
	defer w.meter.stop()
	for left := w.Messages; left > 0; left -= inTransaction {
		started := time.Now()
		count := min(left, inTransaction)
		if err := transaction(ctx, client, w, count); err != nil {
			return err
		}
		w.latencies = append(w.latencies, time.Since(started).Seconds())
		w.settled += count
	}
	return nil
}

func transaction(ctx context.Context, client *kgo.Client, w *work, count int) error {
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	promise := kgo.AbortingFirstErrPromise(client)
	for range count {
		client.Produce(ctx, w.record(), promise.Promise())
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	if err := promise.Err(); err != nil {
		return err
	}
	return client.EndTransaction(ctx, kgo.TryCommit)
}

func start(ctx context.Context, w *work) error {
	w.meter.start()
	client, err := newProducer(w, 0)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, w.record()).FirstErr(); err != nil {
		return err
	}
	w.meter.stop()
	w.settled++
	return nil
}

func consume(ctx context.Context, w *work) error {
	options, err := w.clientOptions()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append(
		options,
		kgo.FetchMaxBytes(w.Settings.FetchMaxBytes),
		kgo.FetchMaxPartitionBytes(w.Settings.PartitionFetchBytes),
	)...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return err
	}
	partitions := make(map[int32]kgo.Offset)
	for index := range w.Settings.Partitions {
		partitions[index] = kgo.NewOffset().AtStart()
	}
	count, size := 0, 0
	w.meter.start()
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{w.Topic: partitions})
	for count < w.Messages {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			count++
			size += len(record.Value)
		})
	}
	w.meter.stop()
	if size != count*w.Size {
		return fmt.Errorf("%d values of %d bytes were expected, they have %d bytes in all", count, w.Size, size)
	}
	w.settled += count
	return nil
}
