"""Proxies as options give them: URLs, and hosts that are reached without the proxy."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from aiokproto.config import ClusterConfig
from aiokproto.config.proxy import Bypass, Proxy
from aiokproto.errors import ConfigurationError


def parsed(**options: Any) -> ClusterConfig:
    return ClusterConfig.parse({"bootstrap_servers": "a:1", **options})


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("socks5://p:1080", Proxy("socks5", "p", 1080)),
        ("SOCKS5H://p:1080/", Proxy("socks5h", "p", 1080)),
        ("http://[::1]:3128", Proxy("http", "::1", 3128)),
        ("http://me:p%40ss@p:3128", Proxy("http", "p", 3128, "me", "p@ss")),
        ("http://me@p:3128", Proxy("http", "p", 3128, "me")),
    ],
)
def test_urls(url: str, proxy: Proxy) -> None:
    found = parsed(proxy_url=url).proxy
    assert found is not None
    assert (found.scheme, found.host, found.port) == (proxy.scheme, proxy.host, proxy.port)
    assert (found.username, found.password) == (proxy.username, proxy.password)


def test_an_https_proxy_has_a_tls_context() -> None:
    context = ssl.create_default_context()
    for options, expected in (({}, None), ({"proxy_ssl_context": context}, context)):
        proxy = parsed(proxy_url="https://p:3129", **options).proxy
        assert proxy is not None
        assert proxy.ssl_context is not None
        assert expected is None or proxy.ssl_context is expected


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"proxy_url": 3}, "proxy_url: expected 'socks5://host:port'"),
        ({"proxy_url": "p:1080"}, "proxy_url='p:1080': expected"),
        ({"proxy_url": "ftp://p:1080"}, "expected 'socks5://host:port'"),
        ({"proxy_url": "http://p"}, "has no port"),
        ({"proxy_url": "http://:3128"}, "expected"),
        ({"proxy_url": "http://p:99999"}, "expected"),
        ({"proxy_url": "http://me:sesame@p"}, r"proxy_url='http://…@p' has no port"),
        ({"proxy_url": "http://me:ses/ame@p:3128"}, "expected|something behind its port"),
        ({"proxy_url": "http://me:sesame?@p:3128"}, "expected|no port|something behind its port"),
        ({"proxy_url": "http://me:ses@ame@p:3128"}, "something behind its port"),
        ({"proxy_url": "http://me:" + "x" * 256 + "@p:3128"}, "at most 255 bytes"),
        ({"proxy_url": "me:sesame@p:3128"}, "proxy_url='…@p:3128': expected"),
        ({"proxy_url": "http:me:sesame@p:3128"}, "proxy_url='…@p:3128': expected"),
        ({"proxy_url": "socks5:/me:sesame@p:1080"}, "proxy_url='…@p:1080': expected"),
        ({"proxy_url": "http://me:ses\name@p:x"}, "proxy_url='http://…@p:x': expected"),
        ({"bootstrap_servers": "kafka://me:ses/ame@p:1"}, "'kafka://…@p:1' is a URL"),
        ({"bootstrap_servers": "me:sesame@p:1"}, r"'…@p:1' has an '@': credentials are options .* \(sasl_username\)"),
        ({"proxy_url": "http://m%3Ae:sesame@p:3128"}, "cannot have a colon"),
        ({"proxy_url": "http://p:1", "no_proxy": "http://a"}, "no_proxy: 'http://a' is no host"),
        ({"proxy_url": "http://p:1", "no_proxy": "a:9092"}, "ports do not count"),
        ({"proxy_url": "http://p:1", "no_proxy": 3}, "no_proxy=3: expected"),
        ({"no_proxy": "a"}, "no_proxy has no effect without proxy_url"),
        ({"proxy_ssl_context": ssl.create_default_context()}, "proxy_ssl_context has no effect without proxy_url"),
        ({"proxy_url": "http://p:1", "proxy_ssl_context": ssl.create_default_context()}, "begins with 'http://'"),
        ({"proxy_url": "https://p:1", "proxy_ssl_context": 3}, "expected an ssl.SSLContext"),
        ({"proxy_url": "http://p:1", "dialer": print}, "proxy_url has no effect with dialer"),
        ({"client_dns_lookup": "default"}, "expected 'use_all_dns_ips' or"),
        ({"ssl_server_hostname": ""}, "expected a host name"),
        ({"dialer": 3}, "expected a function"),
    ],
)
def test_what_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as caught:
        parsed(**options)
    assert "sesame" not in str(caught.value)
    assert "ame@" not in str(caught.value)


def test_credentials_are_not_shown() -> None:
    config = parsed(proxy_url="http://me:sesame@p:3128")
    assert str(config.proxy) == "http://p:3128"
    assert "sesame" not in repr(config)
    assert "me'" not in repr(config.proxy)


@pytest.mark.parametrize(
    ("entries", "inside", "outside"),
    [
        (
            "internal",
            ["internal", "kafka.internal", "a.b.INTERNAL", "internal."],
            ["external", "xinternal", "10.0.0.1"],
        ),
        (".internal, *.local", ["kafka.internal", "internal", "a.local"], ["local.x", "a.internal.org"]),
        ("10.0.0.0/8,192.168.1.7", ["10.1.2.3", "192.168.1.7"], ["11.0.0.1", "192.168.1.8", "ten.0.0.1", "::1"]),
        ("fd00::/8,[::1]", ["fd12::1", "::1"], ["fe80::1", "127.0.0.1"]),
        ("*", ["a", "10.0.0.1", "::1"], []),
        ("", [], ["a"]),
    ],
)
def test_hosts_without_the_proxy(entries: str, inside: list[str], outside: list[str]) -> None:
    bypass = Bypass(entry for entry in entries.split(",") if entry.strip())
    assert [host for host in [*inside, *outside] if host in bypass] == inside
