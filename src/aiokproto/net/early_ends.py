"""Texts for the usual causes of connections that end early, or never respond. Pure."""

from __future__ import annotations

# No NotKafkaError, which bootstrap treats as final: a load balancer without a backend closes connections like this too,
# and the next attempt can succeed.
NO_RESPONSE_YET = (
    " before its first response: the broker is starting, the listener expects TLS (security_protocol='SSL'), or it is"
    " not Kafka"
)

SILENT = "the broker hangs, the listener expects TLS (security_protocol='SSL'), or it is not Kafka"
# A broker's alert can be lost, if its end of the connection is closed before the alert was read.
NO_RESPONSE_YET_WITH_TLS = (
    " before its first response: the broker is starting, or it requires a client certificate (ssl_certfile or"
    " ssl_keystore_location) or does not accept this one"
)

# A listener with SASL answers ApiVersions to everybody, and closes the connection on any other request.
NO_RESPONSE_AFTER_VERSIONS = (
    " on the first request after ApiVersions: the broker is stopping, or the listener expects authentication"
    " (security_protocol='SASL_SSL' or 'SASL_PLAINTEXT')"
)
