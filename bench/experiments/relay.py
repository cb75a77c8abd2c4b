"""A network that is slow: what comes to an address is passed on to another one after a delay, in both directions. It needs no privileges.

It runs as a process of its own: relay.py DELAY_SECONDS FROM_HOST:PORT=TO_HOST:PORT ... until its standard input is closed; `ready` on its standard output.
"""
import collections
import ctypes
import select
import socket
import sys
import time

PR_SET_TIMERSLACK = 29
CHUNK = 1 << 16


class Way:
    """One direction of a connection: what is due when, and what the target has not taken."""

    def __init__(self, source, target):
        self.source, self.target, self.due, self.left = source, target, collections.deque(), b""
        self.ended = False


class Relay:
    def __init__(self, delay, pairs):
        self.delay, self.listeners, self.ways = delay, {}, {}
        for here, there in pairs:
            listener = socket.create_server(here)
            listener.setblocking(False)
            self.listeners[listener] = there

    def accept(self, listener):
        source, _ = listener.accept()
        try:
            target = socket.create_connection(self.listeners[listener], 5)
        except OSError:
            return source.close()
        for end in (source, target):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ways[source], self.ways[target] = Way(source, target), Way(target, source)

    def take(self, way):
        try:
            data = way.source.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        way.ended = not data
        way.due.append((time.monotonic() + self.delay, data))

    def give(self, way, now):
        """False: the connection has ended."""
        while way.left or way.due and way.due[0][0] <= now:
            if not way.left:
                way.left = way.due.popleft()[1]
                if not way.left:
                    return False
            try:
                way.left = way.left[way.target.send(way.left):]
            except BlockingIOError:
                return True
            except OSError:
                return False
        return True

    def end(self, way):
        for one in (way.source, way.target):
            self.ways.pop(one, None)
            one.close()

    def run(self):
        print("ready", flush=True)
        while True:
            now = time.monotonic()
            for way in [way for way in self.ways.values() if way.due or way.left]:
                if way.source in self.ways and not self.give(way, now):
                    self.end(way)
            reading = [sys.stdin, *self.listeners, *(way.source for way in self.ways.values() if not way.ended)]
            writing = [way.target for way in self.ways.values() if way.left]
            pause = min((way.due[0][0] for way in self.ways.values() if way.due and not way.left), default=now + 60) - time.monotonic()
            ready, _, _ = select.select(reading, writing, [], max(pause, 0))
            for one in ready:
                if one is sys.stdin:
                    return
                if one in self.listeners:
                    self.accept(one)
                elif one in self.ways:
                    self.take(self.ways[one])


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def main():
    # A timer may be 50 us late otherwise.
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)
    Relay(float(sys.argv[1]), [tuple(address(end) for end in pair.split("=")) for pair in sys.argv[2:]]).run()


if __name__ == "__main__":
    main()
