"""Send, wait for the acknowledgement, read back as a member of a group. Runs on the embedded broker."""

import asyncio

from aiokproto import Broker, Consumer, Producer


async def main() -> None:
    async with Broker() as broker:
        await broker.create_topic("greetings", partitions=3)

        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            where = await producer.send("greetings", b"hello", key=b"en", headers=[("trace", b"1")])
            print(f"acknowledged at {where.topic}-{where.partition}, offset {where.offset}")
            deliveries = [await producer.post("greetings", word) for word in (b"hallo", b"salut", b"ciao")]
            for delivery in deliveries:
                await delivery

        async with Consumer(
            "greetings",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="readers",
            auto_offset_reset="earliest",
        ) as consumer:
            seen = 0
            async for record in consumer:
                print(record.partition, record.offset, record.key, record.value, record.headers)
                seen += 1
                if seen == 4:
                    break


asyncio.run(main())
