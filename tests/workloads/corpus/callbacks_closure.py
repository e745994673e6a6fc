#!/usr/bin/env python3
"""An event loop whose timers are done, and still hold what their callbacks closed over."""
import asyncio

import said


class Bus:
    def __init__(self):
        self.history = []

    def publish(self, payload_size):
        payload = bytearray(payload_size)
        said.keeps(payload_size + 1)

        def deliver():
            return len(payload)
        self.history.append(deliver)
        return deliver


async def handle(bus):
    parts = [bytes(3000 + n) for n in range(40)]
    deliver = bus.publish(60_000)
    await asyncio.sleep(0)
    return deliver() + len(b"".join(parts))


async def serve():
    bus = Bus()
    said.ready("publish")
    while True:
        await handle(bus)
        said.step(0)
        await asyncio.sleep(0.02)


asyncio.run(serve())
