// Measures franz-go as the other clients are measured: a job is read from stdin, and what was found is written to
// stdout, both as JSON. What the fields mean is in benchmarks/work.py.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

const (
	warmUp  = 2000
	timeout = 5 * time.Minute
)

type settings struct {
	Partitions          int32 `json:"partitions"`
	LingerMs            int   `json:"linger_ms"`
	BatchBytes          int32 `json:"batch_bytes"`
	InFlight            int   `json:"in_flight"`
	Idempotence         bool  `json:"idempotence"`
	FetchMaxBytes       int32 `json:"fetch_max_bytes"`
	PartitionFetchBytes int32 `json:"partition_fetch_bytes"`
}

type work struct {
	Bootstrap   string   `json:"bootstrap"`
	Topic       string   `json:"topic"`
	Messages    int      `json:"messages"`
	Size        int      `json:"size"`
	ValuesPath  string   `json:"values_path"`
	Compression string   `json:"compression"`
	Security    security `json:"security"`
	Settings    settings `json:"settings"`
	Broker      *int     `json:"broker_process"`

	values     values
	meter      meter
	settled    int
	connecting int
	latencies  []float64
}

type job struct {
	Command string `json:"command"`
	Kind    string `json:"kind"`
	Way     string `json:"way"`
	Work    work   `json:"work"`
}

type way func(context.Context, *work) error

var ways = map[string]map[string]way{
	"produce":  {"Produce(), Flush()": produce},
	"latency":  {"ProduceSync()": produceSync},
	"transact": {"Produce(), EndTransaction()": transact},
	"consume":  {"PollFetches()": consume},
	"start":    {"ProduceSync()": start},
}

func main() {
	var request job
	if err := json.NewDecoder(os.Stdin).Decode(&request); err != nil {
		log.Fatal("the job: ", err)
	}
	found, err := answer(request)
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}

func answer(request job) (map[string]any, error) {
	if request.Command == "describe" {
		return describe(), nil
	}
	do, known := ways[request.Kind][request.Way]
	if !known {
		return nil, fmt.Errorf("there is no way %q to %s", request.Way, request.Kind)
	}
	return run(request, do)
}

func describe() map[string]any {
	named := make(map[string][]string)
	for kind, calls := range ways {
		for name := range calls {
			named[kind] = append(named[kind], name)
		}
	}
	return map[string]any{
		"version": version(),
		"ways":    named,
		"asyncio": false,
		"stated": map[string]any{
			"works_in": "goroutines",
			"differs":  map[string]string{},
			"notes":    []string{runtime.Version()},
		},
	}
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/twmb/franz-go" {
			return module.Version
		}
	}
	return "unknown"
}

// run does the work for few messages first, so that connections were made once and pools are filled; then for all.
func run(request job, do way) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	all := request.Work
	if err := all.values.read(all.ValuesPath, all.Size); err != nil {
		return nil, err
	}
	sent := 0
	if request.Kind != "start" {
		few := all
		few.Messages = min(warmUp, all.Messages)
		if err := do(ctx, &few); err != nil {
			return nil, err
		}
		sent += few.settled + few.connecting
	}
	all.meter.watch(all.Broker)
	if err := do(ctx, &all); err != nil {
		return nil, err
	}
	return map[string]any{
		"cpu":        all.meter.cpu,
		"wall":       all.meter.wall,
		"broker_cpu": all.meter.brokerCPU,
		"settled":    all.settled,
		"sent":       sent + all.settled + all.connecting,
		"latencies":  all.latencies,
		"figures":    map[string]float64{},
		"peak_bytes": peakBytes(),
	}, nil
}
