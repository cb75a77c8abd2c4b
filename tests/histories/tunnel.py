"""A network in user space: takes packets between nodes from a TUN device and gives them back late, twice, or not at all.

Orders are lines of JSON on standard input, each answered with a line: {"pairs": [[1, 2]], "delay": 0.05, "jitter": 0.05, "loss":
0.1, "twice": 0.01, "half_open": true, "seed": 7}. They hold for packets from the first to the second node of each pair; other
packets pass. With `half_open`, connections that there are get nothing through any more, and nobody is told; new ones work.
"""
import fcntl
import heapq
import json
import os
import random
import select
import struct
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
TCP, SYN = 6, 2
WAITING_MAX = 20_000  # packets; a queue that is full drops, as routers do


def device():
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", b"tunnel", IFF_TUN | IFF_NO_PI))
    return descriptor


class Tunnel:
    def __init__(self, tun):
        self.tun, self.orders, self.waiting, self.count = tun, {}, [], 0
        self.rng = random.Random(0)

    def order(self, line):
        order = json.loads(line)
        self.rng.seed(order.get("seed", 0))
        for source, target in order["pairs"]:
            # Connections that began before this order are old.
            self.orders[source, target] = {**order, "young": set()}

    def take(self, packet):
        if len(packet) < 20 or packet[0] >> 4 != 4:
            return
        source, target, now = packet[14], packet[18], time.monotonic()
        order = self.orders.get((source, target))
        if order is None:
            return self.give(packet)
        if order.get("half_open") and packet[9] == TCP:
            at = (packet[0] & 15) * 4
            ports = packet[at:at + 4]
            # The answer to a SYN of the other direction begins a connection, too.
            if packet[at + 13] & SYN:
                order["young"].add(ports)
            if ports not in order["young"]:
                return
        if self.rng.random() < order.get("loss", 0) or len(self.waiting) > WAITING_MAX:
            return
        for _ in range(2 if self.rng.random() < order.get("twice", 0) else 1):
            late = order.get("delay", 0) + self.rng.random() * order.get("jitter", 0)
            self.count += 1
            heapq.heappush(self.waiting, (now + late, self.count, packet))

    def give(self, packet):
        try:
            os.write(self.tun, packet)
        except OSError:
            pass  # The node's link is down.

    def run(self):
        print("ready", flush=True)
        commands = sys.stdin.fileno()
        while True:
            now = time.monotonic()
            while self.waiting and self.waiting[0][0] <= now:
                self.give(heapq.heappop(self.waiting)[2])
            pause = self.waiting[0][0] - now if self.waiting else 60
            ready, _, _ = select.select([self.tun, commands], [], [], max(pause, 0))
            if commands in ready:
                line = sys.stdin.readline()
                if not line:
                    return
                self.order(line)
                print("done", flush=True)
            if self.tun in ready:
                for _ in range(64):
                    try:
                        self.take(os.read(self.tun, 65536))
                    except BlockingIOError:
                        break


Tunnel(device()).run()
