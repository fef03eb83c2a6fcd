"""Whole batches as Arrow columns, without a Python object per record."""

import asyncio

from aiokproto import Broker, Consumer, Producer


async def main() -> None:
    async with Broker() as broker:
        await broker.create_topic("numbers")
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            outcomes = await producer.send_many("numbers", [b"%d" % i for i in range(1_000)])
            print(len(outcomes), "acknowledged, the last at offset", outcomes[-1].offset)

        rows = 0
        async with Consumer(
            "numbers", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            async for batch in consumer.batches():
                table = batch.to_arrow()
                rows += table.num_rows
                print(table.schema.names, table.num_rows, "rows")
                if rows == 1_000:
                    break


asyncio.run(main())
