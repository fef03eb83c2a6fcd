package main

import (
	"syscall"
	"time"
	"unsafe"
)

const watchable = true

// cpuSecondsOf has the CPU seconds of another process, all its threads. How Linux numbers that clock is in
// clock_getcpuclockid(3).
func cpuSecondsOf(process int) float64 {
	var now syscall.Timespec
	clock := uintptr(^process<<3 | 2)
	if _, _, failure := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&now)), 0); failure != 0 {
		panic(failure)
	}
	return time.Duration(now.Nano()).Seconds()
}
