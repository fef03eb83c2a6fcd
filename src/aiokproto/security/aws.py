"""AWS: credentials, and requests that are signed with them (Signature Version 4, in query parameters)."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import inspect
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

from aiokproto.application.calls import failure, without_text
from aiokproto.errors import BrokerConnectionError, ConfigurationError, KafkaError
from aiokproto.runtime import current, utc

ALGORITHM = "AWS4-HMAC-SHA256"

_MARGIN = 300.0
"""New credentials of a role are requested this long before the old ones expire (s)."""

_HOST = re.compile(
    r"(?:.+\.)?kafka(?:-serverless)?(?:-fips)?\.(?P<region>[a-z]{2,}(?:-[a-z]+)+-\d+)\.(?:api\.aws|amazonaws\.com(?:\.cn)?)"
)
_REGION = re.compile(r"[a-z0-9-]{1,64}")


class AwsCredentials(NamedTuple):
    """AWS credentials.

    Attributes:
        access_key_id: The id of the access key.
        secret_access_key: The secret access key.
        session_token: The token of temporary credentials. Default None.
        expires_at: When temporary credentials expire, in seconds since the epoch. Default None, if they never expire,
            or that's unknown.
    """

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None
    expires_at: float | None = None

    def __repr__(self) -> str:
        return f"AwsCredentials(expires_at={self.expires_at!r})"


AwsCredentialsSource: TypeAlias = "AwsCredentials | Callable[[], AwsCredentials | Awaitable[AwsCredentials]]"
"""Credentials, or a function, async or not, that returns them."""


class CredentialsReader:
    """Reads credentials from a source. None stands for a new :class:`BotocoreCredentials`."""

    def __init__(self, source: AwsCredentialsSource | None) -> None:
        self._source: Any = BotocoreCredentials() if source is None else source
        if not isinstance(self._source, AwsCredentials) and (
            isinstance(self._source, type) or not callable(self._source)
        ):
            raise ConfigurationError("sasl_aws_credentials: expected AwsCredentials, or a function that returns them")

    async def read(self) -> AwsCredentials:
        """Return credentials.

        Raises:
            BrokerConnectionError: There are no credentials. The authentication is retried like a failed connection.
            KafkaError: The function raised it.
        """
        found: Any = self._source
        if not isinstance(found, AwsCredentials):
            try:
                found = found()
                if inspect.isawaitable(found):
                    found = await found
            except KafkaError:
                raise
            except BaseException as error:  # noqa: BLE001 - failure() passes on what ends the task
                raised = failure(error, "sasl_aws_credentials", awaited=True)
                raise BrokerConnectionError(f"sasl_aws_credentials cannot be read: {without_text(raised)}") from raised
        if not isinstance(found, AwsCredentials):
            raise BrokerConnectionError(f"sasl_aws_credentials gave {type(found).__name__}: expected AwsCredentials")
        if not found.access_key_id or not found.secret_access_key:
            raise BrokerConnectionError("sasl_aws_credentials: the access key, or its secret, is empty")
        return found


class BotocoreCredentials:
    """The credentials that AWS's own tools would find: in the environment, files, containers or instances.

    Needs the extra ``aws`` (the package botocore), which also renews them.

    Args:
        profile: The profile in the configuration files. Default None: ``AWS_PROFILE``, or the default profile.
        role_arn: A role to assume with them. Default None.
        role_session_name: The session's name, for a role. Default ``"aiokproto"``.
        external_id: The external id, for a role. Default None.
        sts_region: The region of the token service (STS) that issues the role's credentials. Default None: the
            profile's region.
    """

    def __init__(
        self,
        profile: str | None = None,
        *,
        role_arn: str | None = None,
        role_session_name: str = "aiokproto",
        external_id: str | None = None,
        sts_region: str | None = None,
    ) -> None:
        self._profile = profile
        self._role = {"RoleArn": role_arn, "RoleSessionName": role_session_name} if role_arn else {}
        if role_arn and external_id:
            self._role["ExternalId"] = external_id
        self._sts_region = sts_region
        self._session: Any = None
        self._assumed: AwsCredentials | None = None

    async def __call__(self) -> AwsCredentials:
        """Return credentials, looking them up in a thread.

        Raises:
            ConfigurationError: The package botocore is missing.
        """
        return await asyncio.get_running_loop().run_in_executor(None, self._find, current().milliseconds() / 1000)

    def _find(self, now: float) -> AwsCredentials:
        try:
            import botocore.session
        except ImportError:
            raise ConfigurationError(
                "credentials of AWS's tools need the package botocore: pip install aiokproto[aws]; or give"
                " sasl_aws_credentials"
            ) from None
        if self._session is None:
            self._session = botocore.session.Session(profile=self._profile)
        if self._role:
            cached = self._assumed
            if cached is None or (cached.expires_at or 0) - now < _MARGIN:
                cached = self._assumed = self._assume()
            return cached
        # The session keeps the credentials, and renews temporary ones before they expire.
        found = self._session.get_credentials()
        if found is None:
            raise BrokerConnectionError("no AWS credentials: none in environment, configuration files or metadata")
        frozen = found.get_frozen_credentials()
        # botocore has no public attribute for the expiry of renewable credentials, only this datetime.
        expiry: Any = getattr(found, "_expiry_time", None)
        expires_at = None if expiry is None else float(expiry.timestamp())
        return AwsCredentials(frozen.access_key, frozen.secret_key, frozen.token, expires_at)

    def _assume(self) -> AwsCredentials:
        client = self._session.create_client("sts", region_name=self._sts_region)
        try:
            found = client.assume_role(**self._role)["Credentials"]
        finally:
            client.close()
        expires_at = found["Expiration"].timestamp()
        return AwsCredentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"], expires_at)

    def __repr__(self) -> str:
        return f"BotocoreCredentials(profile={self._profile!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None, "_assumed": None}


def region_of(host: str, given: str | None) -> str:
    """Return the region of a cluster: the given one, or the one in the broker's name, or in the environment.

    Raises:
        ConfigurationError: The region isn't found.
    """
    found = _HOST.fullmatch(host.lower().rstrip("."))
    region = given or (found and found["region"]) or os.environ.get("AWS_REGION", os.environ.get("AWS_DEFAULT_REGION"))
    if not region:
        raise ConfigurationError(f"sasl_aws_region is missing: the broker's name {host!r} does not have the region")
    return check_region(region)


def check_region(region: str) -> str:
    """Check the format of a region, which becomes part of a host name.

    Raises:
        ConfigurationError: It isn't a region.
    """
    if not isinstance(region, str) or not _REGION.fullmatch(region):
        raise ConfigurationError(f"sasl_aws_region={region!r}: expected a region such as 'us-east-1'")
    return region


def presigned(
    host: str,
    region: str,
    service: str,
    parameters: Mapping[str, str],
    credentials: AwsCredentials,
    *,
    at: int,
    expires: int,
) -> dict[str, str]:
    """Sign ``GET https://host/`` with query parameters. Return them, with the signature's parameters added.

    Args:
        host: The host.
        region: The region.
        service: The name of the service.
        parameters: The parameters to sign.
        credentials: The credentials.
        at: The time, in seconds since the epoch.
        expires: How long the signature is valid (s).
    """
    moment = utc(at)
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    query = {
        **parameters,
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key_id}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(expires),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.session_token:
        query["X-Amz-Security-Token"] = credentials.session_token
    request = "\n".join(("GET", "/", query_string(query), f"host:{host}", "", "host", hashlib.sha256().hexdigest()))
    text = "\n".join((ALGORITHM, moment, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{credentials.secret_access_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return {**query, "X-Amz-Signature": hmac.digest(key, text.encode(), "sha256").hex()}


def query_string(parameters: Mapping[str, str]) -> str:
    """Encode parameters for Signature Version 4: sorted, with everything but unreserved characters escaped."""
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in parameters.items())
    return "&".join(f"{name}={value}" for name, value in pairs)
