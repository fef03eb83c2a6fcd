"""What a client counts, its statistics and health, and the encoding of metrics that brokers subscribe to.

There are four ways to see what a client does:

* :mod:`aiokproto.hooks`: a call per event (a request, a batch, a rebalance).
* :mod:`aiokproto.interceptors`: a call per record, which may change it. Nothing else is called per record, and without
  interceptors nothing is.
* :mod:`~aiokproto.observe.stats` and :mod:`~aiokproto.observe.health`: the state now, typed, without I/O.
* Metrics that brokers subscribe to (KIP-714), encoded by :mod:`~aiokproto.observe.otlp`.

**Who counts.** An *observer* (:mod:`~aiokproto.observe.observers`) belongs to the part that it observes, has plain
integers that this part alone changes, and calls the hooks. Readers never write: statistics and pushed metrics see the
same totals, and compute differences themselves.

**What it costs.** An addition or two per request, batch or event. A hook that no object overrides is None, tested once
before the event is made.

**What can never happen.** A hook or interceptor that raises ends nothing: the error is logged, and the client goes on.
"""
