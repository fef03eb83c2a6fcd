package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// meter has the CPU seconds of this process, all its threads, and the wall seconds, between start and stop; and those
// of the broker's process, if it is configured to measure that.
type meter struct {
	cpu, wall float64
	brokerCPU *float64

	cpuStart    float64
	broker      int
	brokerStart float64
	started     time.Time
}

func (m *meter) watch(broker *int) {
	if broker != nil && watchable {
		m.broker, m.brokerCPU = *broker, new(float64)
	}
}

func (m *meter) start() {
	// What the warm-up left behind is not collected at the cost of what is measured.
	runtime.GC()
	if m.brokerCPU != nil {
		m.brokerStart = cpuSecondsOf(m.broker)
	}
	m.cpuStart, m.started = cpuSeconds(), time.Now()
}

func (m *meter) stop() {
	m.wall += time.Since(m.started).Seconds()
	m.cpu += cpuSeconds() - m.cpuStart
	if m.brokerCPU != nil {
		*m.brokerCPU += cpuSecondsOf(m.broker) - m.brokerStart
	}
}

func cpuSeconds() float64 {
	used := usage()
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}

func usage() syscall.Rusage {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return used
}

// peakBytes is the most memory that this process has had. On Linux the maximum that getrusage knows is no less than
// that of the process which this one was forked from.
func peakBytes() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return usage().Maxrss
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib * 1024
		}
	}
	return 0
}

// values has what is to be written, over and over.
type values struct {
	all  [][]byte
	next int
}

func (v *values) read(path string, size int) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for start := 0; start < len(data); start += size {
		v.all = append(v.all, data[start:start+size])
	}
	return nil
}

func (v *values) take() []byte {
	value := v.all[v.next]
	v.next = (v.next + 1) % len(v.all)
	return value
}
