package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// share reads as two members of a share group, each of which releases some records once, until all are accepted.
func share(ctx context.Context, address, topic, group string, count int) error {
	accepted := map[string]bool{}
	again := map[string]bool{}
	var members []*kgo.Client
	for range 2 {
		client, err := kgo.NewClient(
			kgo.SeedBrokers(address), kgo.ShareGroup(group), kgo.ConsumeTopics(topic), kgo.ShareMaxRecords(20),
		)
		if err != nil {
			return err
		}
		defer client.Close()
		members = append(members, client)
	}
	for turn := 0; len(accepted) < count; turn++ {
		client := members[turn%len(members)]
		some, cancel := context.WithTimeout(ctx, pause)
		fetches := client.PollRecords(some, 20)
		cancel()
		if err := fetches.Err(); err != nil && some.Err() == nil {
			return err
		}
		var err error
		fetches.EachRecord(func(record *kgo.Record) {
			value := string(record.Value)
			switch {
			case accepted[value]:
				err = fmt.Errorf("%s is delivered though it was accepted", value)
			case record.DeliveryCount() == 1 && len(value)%3 == 0:
				record.Ack(kgo.AckRelease)
				again[value] = true
			default:
				record.Ack(kgo.AckAccept)
				accepted[value] = true
			}
		})
		if err != nil {
			return err
		}
		if err := client.FlushAcks(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d were accepted: %w", len(accepted), count, ctx.Err())
		}
	}
	fmt.Println(len(accepted), len(again))
	return nil
}
