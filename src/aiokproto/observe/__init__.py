"""A client's counters, statistics and health, and the encoding of metrics that brokers subscribe to.

There are four ways to see what a client does:

* :mod:`aiokproto.hooks`: a call per event (a request, a batch, a rebalance).
* :mod:`aiokproto.interceptors`: a call per record, which may change it. If there are no interceptors, nothing is called
  per record.
* :mod:`~aiokproto.observe.stats` and :mod:`~aiokproto.observe.health`: the current state, typed, without I/O.
* Metrics that brokers subscribe to (KIP-714), encoded by :mod:`~aiokproto.observe.otlp`.

**Counting.** An *observer* (:mod:`~aiokproto.observe.observers`) belongs to the part of the client that it observes,
holds plain integers that only this part changes, and calls the hooks. Readers never write: statistics and pushed
metrics see the same totals, and compute differences themselves.

**Cost.** One or two additions per request, batch or event. A hook that no object overrides is None, and the observer
tests for that before it creates the event.

**Errors.** A hook or interceptor that raises doesn't stop the client. The error is logged, and the client continues.
"""
