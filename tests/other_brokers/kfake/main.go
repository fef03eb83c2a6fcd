// Command kfake runs franz-go's fake cluster until its standard input ends.
//
//	kfake BROKERS PARTITIONS [RELEASE]
//
// Topics that a client asks for are created with so many partitions. RELEASE, such as v2.4, caps the versions of all
// APIs. The first line written has the addresses. Then each line read is a command, which a line answers, "ok" or why
// not:
//
//	move TOPIC PARTITION NODE   the node leads the partition from now on
//	rehash                      groups and transactional ids get other coordinators
//	add                         one more broker
//	remove NODE                 the broker leaves, and others take over what it led
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"
)

func main() {
	var brokers, partitions int
	if _, err := fmt.Sscan(strings.Join(os.Args[1:3], " "), &brokers, &partitions); err != nil {
		log.Fatal(err)
	}
	options := []kfake.Opt{
		kfake.NumBrokers(brokers),
		kfake.DefaultNumPartitions(partitions),
		kfake.AllowAutoTopicCreation(),
		kfake.GroupMinSessionTimeout(100 * time.Millisecond),
		kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "100"}),
	}
	if len(os.Args) > 3 {
		release := kversion.FromString(os.Args[3])
		if release == nil {
			log.Fatalf("%s is no release of Kafka", os.Args[3])
		}
		options = append(options, kfake.MaxVersions(release))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	// The test holds the other end: the cluster does not outlive it.
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := obey(cluster, strings.Fields(lines.Text())); err != nil {
			fmt.Println(err)
		} else {
			fmt.Println("ok")
		}
	}
}

func obey(cluster *kfake.Cluster, command []string) error {
	var node, partition int32
	switch command[0] {
	case "move":
		if _, err := fmt.Sscan(strings.Join(command[2:], " "), &partition, &node); err != nil {
			return err
		}
		return cluster.MoveTopicPartition(command[1], partition, node)
	case "rehash":
		cluster.RehashCoordinators()
		return nil
	case "add":
		_, _, err := cluster.AddNode(-1, 0)
		return err
	case "remove":
		if _, err := fmt.Sscan(command[1], &node); err != nil {
			return err
		}
		return cluster.RemoveNode(node)
	}
	return fmt.Errorf("unknown command %q", command[0])
}
