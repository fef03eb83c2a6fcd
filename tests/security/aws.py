"""Access keys, and what AWS's own package signs with them."""

from __future__ import annotations

import datetime
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from aiokproto.security import AwsCredentials

KEYS = {"AKIA1": "s3cret/+="}
STATIC = AwsCredentials("AKIA1", KEYS["AKIA1"])
ACTION = {"Action": "kafka-cluster:Connect"}


def by_botocore(host: str, region: str, credentials: AwsCredentials, at: int) -> dict[str, str]:
    """What botocore signs, at a frozen time."""
    frozen = datetime.datetime.fromtimestamp(at, datetime.timezone.utc)
    request = AWSRequest(method="GET", url=f"https://{host}/", params=dict(ACTION))
    signer = botocore.auth.SigV4QueryAuth(Credentials(*credentials[:3]), "kafka-cluster", region, expires=900)
    with mock.patch("botocore.auth.get_current_datetime", return_value=frozen):
        signer.add_auth(request)
    return {name: values[0] for name, values in parse_qs(urlsplit(str(request.url)).query).items()}
