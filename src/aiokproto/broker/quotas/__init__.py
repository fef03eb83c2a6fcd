"""Client quotas: byte rates, request time, controller mutations, connection rates (KIP-13, KIP-124, KIP-599, KIP-612).

- :mod:`client_quotas` holds the configured limits of all entities, and selects the limit that applies to a client.
  There is one ``ClientQuotas`` per cluster. Only AlterClientQuotas changes it, through ``SecurityState``, which
  persists it.
- :mod:`meters` measures usage: a rate over sliding windows, and a token bucket for mutations.
- :mod:`client_quota_manager` holds one node's meters and computes throttle times. The meters are in memory, so a
  restarted node starts without recorded usage.
- :mod:`request_quotas` records a served request and puts the throttle time into the response.

The response is sent right away, and then the broker stops reading from the connection for the throttle time (KIP-219).
Nothing here waits or reads a clock: times are passed in.
"""
