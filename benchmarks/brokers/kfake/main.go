// Runs franz-go's kfake as a broker process: one node, no topics, its state in memory. The first line on stdout is the
// address and the module's version; it ends when stdin does, so it never outlives who started it.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"runtime/debug"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	fmt.Println(cluster.ListenAddrs()[0], version())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/twmb/franz-go/pkg/kfake" {
			return module.Version
		}
	}
	return "unknown"
}
