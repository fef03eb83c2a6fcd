"""The codec alone: no connection, no event loop, no third party."""

from aiokproto.codec import lookup
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic

request = MetadataRequest(topics=[MetadataRequestTopic(name="flights")])
for version in (0, 9, 12):
    data = request.encode(version)
    print(f"v{version:<3}", data.hex(" "))
    assert MetadataRequest.decode(data, version) == request

marker = lookup("EndTxnMarker")
print(marker.__name__, "has versions", marker.versions)
