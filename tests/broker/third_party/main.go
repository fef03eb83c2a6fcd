// Command franz-go runs franz-go against the embedded broker: produce, a group that consumes, transactions, share groups.
//
//	franz-go ADDRESS TOPIC GROUP COUNT [transactional|share]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// pause is how long a member of a share group waits for records before the other member polls.
const pause = 200 * time.Millisecond

func main() {
	address, topic, group := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	how := append(os.Args, "")[5]
	if how == "transactional" {
		err = transact(ctx, address, topic, count)
	} else {
		err = produce(ctx, address, topic, count)
	}
	if err == nil && how == "share" {
		err = share(ctx, address, topic, group, count)
	} else if err == nil {
		err = consume(ctx, address, topic, group, count)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func records(topic string, count int) []*kgo.Record {
	all := make([]*kgo.Record, count)
	for i := range all {
		all[i] = &kgo.Record{Topic: topic, Key: []byte(strconv.Itoa(i)), Value: []byte("value " + strconv.Itoa(i))}
	}
	return all
}

func produce(ctx context.Context, address, topic string, count int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ProduceSync(ctx, records(topic, count)...).FirstErr()
}

// transact aborts as many records as it commits.
func transact(ctx context.Context, address, topic string, count int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.TransactionalID("transactions"))
	if err != nil {
		return err
	}
	defer client.Close()
	for _, commit := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		if err := client.ProduceSync(ctx, records(topic, count)...).FirstErr(); err != nil {
			return err
		}
		if err := client.EndTransaction(ctx, commit); err != nil {
			return err
		}
	}
	return nil
}

// consume reads with two clients: the second continues from the offsets that the first committed.
func consume(ctx context.Context, address, topic, group string, count int) error {
	seen := map[string]bool{}
	for round := 0; len(seen) < count; round++ {
		client, err := kgo.NewClient(
			kgo.SeedBrokers(address), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		)
		if err != nil {
			return err
		}
		for some := count/2 + len(seen); len(seen) < count && len(seen) < some; {
			fetches := client.PollRecords(ctx, some-len(seen))
			if err := fetches.Err(); err != nil {
				return err
			}
			fetches.EachRecord(func(record *kgo.Record) { seen[string(record.Value)] = true })
		}
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
		client.Close()
	}
	fmt.Println(len(seen))
	return nil
}
