"""Options of other Kafka clients that have no counterpart here, and what to use instead."""

from __future__ import annotations

_SASL = "this SASL mechanism is not supported yet"
_JAAS = "use sasl_mechanism, sasl_username and sasl_password"
_SERIALIZER = "use key_serializer and value_serializer, each a function that returns bytes"
_DESERIALIZER = "use key_deserializer and value_deserializer, each a function of bytes"
_TLS = 'use security_protocol="SSL" and ssl_context=ssl.create_default_context(cafile=...)'
_VERSIONS = "leave it out: versions are negotiated with each broker"
_CALLBACK = "await the Delivery of post(), or add_done_callback() to asyncio.ensure_future(delivery)"
_AUTO_CREATE = (
    "leave it out: for a producer the broker's auto.create.topics.enable decides; consumers never create topics"
)
_SOCKETS = "leave it out: the operating system chooses the sizes of socket buffers"
_METRICS = "use stats(), hooks, or aiokproto.prometheus and aiokproto.otel"
_LOGGED = "errors that end a client are raised from its calls; others are logged by the logger `aiokproto`"
_TOPICS = 'topics are arguments of calls: Consumer("a", "b", ...), producer.send("a", value)'
_AUTO_COMMITS = "leave it out: failed automatic commits are logged; the next call raises a fatal one"
_LIBRDKAFKA_QUEUE = "use buffer_memory (producer) or fetch_buffer_bytes (consumer), in bytes"

HINTS = {
    "sasl_mechanisms": "use sasl_mechanism, with one name",
    "sasl_plain_username": "use sasl_username",
    "sasl_plain_password": "use sasl_password",
    "sasl_jaas_config": _JAAS,
    "sasl_kerberos_service_name": _SASL,
    "sasl_kerberos_domain_name": _SASL,
    "sasl_oauth_token_provider": _SASL,
    "serializer": _SERIALIZER,
    "deserializer": _DESERIALIZER,
    "errors_deadletterqueue_topic_name": "use on_undecodable=DeadLetterTopic(topic, producer)",
    "ssl_cafile": _TLS,
    "ssl_certfile": f"{_TLS}, then load_cert_chain(certfile, keyfile)",
    "ssl_keyfile": f"{_TLS}, then load_cert_chain(certfile, keyfile)",
    "ssl_password": f"{_TLS}, then load_cert_chain(certfile, keyfile, password)",
    "ssl_crlfile": f"{_TLS}, then load_verify_locations(crlfile)",
    "ssl_ciphers": f"{_TLS}, then set_ciphers(...)",
    "ssl_endpoint_identification_algorithm": f"{_TLS}, and its check_hostname",
    "ssl_check_hostname": f"{_TLS}, and its check_hostname",
    "ssl_ca_location": _TLS,
    "ssl_certificate_location": f"{_TLS}, then load_cert_chain(certfile, keyfile)",
    "ssl_key_location": f"{_TLS}, then load_cert_chain(certfile, keyfile)",
    "ssl_truststore_location": f"{_TLS}, from a PEM file",
    "ssl_keystore_location": f"{_TLS}, then load_cert_chain(certfile, keyfile), from PEM files",
    "topic": _TOPICS,
    "topics": _TOPICS,
    "max_poll_records": "pass it to the call: poll(max_records=...)",
    "consumer_timeout_ms": "pass it to the call: poll(timeout_ms=...), or use asyncio.timeout() around `async for`",
    "api_version": _VERSIONS,
    "api_version_auto_timeout_ms": _VERSIONS,
    "broker_version_fallback": _VERSIONS,
    "loop": "leave it out: the running event loop is used",
    "retries": "retries end with delivery_timeout_ms (producer) or default_api_timeout_ms",
    "message_send_max_retries": "retries end with delivery_timeout_ms",
    "on_delivery": _CALLBACK,
    "dr_cb": _CALLBACK,
    "dr_msg_cb": _CALLBACK,
    "error_cb": _LOGGED,
    "stats_cb": _METRICS,
    "rebalance_cb": "pass on_assigned, on_revoked and on_lost to subscribe()",
    "exclude_internal_topics": "patterns never match internal topics",
    "enable_auto_offset_store": "use enable_auto_commit=False and commit()",
    "queue_buffering_max_messages": _LIBRDKAFKA_QUEUE,
    "queue_buffering_max_kbytes": _LIBRDKAFKA_QUEUE,
    "queued_max_messages_kbytes": _LIBRDKAFKA_QUEUE,
    "send_backoff_ms": "use retry_backoff_ms",
    "max_batch_size": "use batch_size",
    "rebalance_timeout_ms": "use max_poll_interval_ms",
    "allow_auto_create_topics": _AUTO_CREATE,
    "receive_message_max_bytes": "use max_response_size",
    "receive_buffer_bytes": _SOCKETS,
    "send_buffer_bytes": _SOCKETS,
    "socket_options": _SOCKETS,
    "bootstrap_timeout_ms": "use bootstrap_resolve_timeout_ms or default_api_timeout_ms",
    "metric_reporters": _METRICS,
    "metrics_enabled": _METRICS,
    "metrics_num_samples": _METRICS,
    "metrics_sample_window_ms": _METRICS,
    "metric_group_prefix": _METRICS,
    "selector": "leave it out: the running event loop is used",
    "kafka_client": "leave it out: the running event loop is used",
    "sasl_kerberos_name": _SASL,
    "socks5_proxy": "use proxy_url, which takes SOCKS5 and HTTP proxies",
    "enable_incremental_fetch_sessions": "leave it out: fetch sessions are always used (KIP-227)",
    "default_offset_commit_callback": _AUTO_COMMITS,
    "sasl_oauthbearer_config": _SASL,
    "queued_min_messages": _LIBRDKAFKA_QUEUE,
    "message_max_bytes": "use max_request_size",
    "message_timeout_ms": "use delivery_timeout_ms",
    "request_required_acks": "use acks",
    "socket_timeout_ms": "use request_timeout_ms",
    "fetch_wait_max_ms": "use fetch_max_wait_ms",
    "fetch_message_max_bytes": "use max_partition_fetch_bytes",
    "topic_metadata_refresh_interval_ms": "use metadata_max_age_ms",
    "batch_num_messages": "use batch_size, in bytes",
    "ssl_key_password": f"{_TLS}, then load_cert_chain(certfile, keyfile, password)",
    "enable_partition_eof": "compare position() with end_offsets()",
    "api_version_request": _VERSIONS,
    "metadata_recovery_strategy": "leave it out: a client whose brokers are gone starts again from bootstrap_servers",
    "metadata_recovery_rebootstrap_trigger_ms": "leave it out: bootstrap_servers come after the known brokers",
    "throttle_cb": "override Hooks.on_throttled, and pass hooks",
    "log_cb": _LOGGED,
    "logger": _LOGGED,
}
"""Option, in lower case with underscores → what to use instead."""
