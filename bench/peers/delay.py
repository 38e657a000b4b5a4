# SPDX-License-Identifier: MIT
"""delay.py PORT HOST:PORT MILLISECONDS: a relay that hands on every answer so
much later, as a distant machine would. Where the kernel has no netem."""
import asyncio
import sys


async def hand_on(reader, writer, delay_s):
    """In the order in which it came, each piece delay_s after it came."""
    loop = asyncio.get_running_loop()
    pieces = asyncio.Queue()

    async def write():
        while True:
            due, piece = await pieces.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            if not piece:
                break
            writer.write(piece)
            await writer.drain()
        writer.close()

    writing = asyncio.ensure_future(write())
    piece = b"-"
    try:
        while piece:
            piece = await reader.read(1 << 16)
            pieces.put_nowait((loop.time() + delay_s, piece))
        await writing
    except ConnectionError:
        writing.cancel()
        writer.close()


async def main():
    port, there, milliseconds = sys.argv[1:]
    host, _, to_port = there.rpartition(":")

    async def client(reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection(host,
                                                                   to_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(
            hand_on(reader, far_writer, 0),
            hand_on(far_reader, writer, float(milliseconds) / 1000))

    server = await asyncio.start_server(client, "127.0.0.1", int(port),
                                        backlog=1024)
    async with server:
        await server.serve_forever()


asyncio.run(main())
