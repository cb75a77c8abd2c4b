#!/usr/bin/env python3
"""Histories of stores with planted mistakes, small ones: each checker finds what it is for, and nothing where nothing is wrong.

    tests/histories/fixtures.py              own checks
    tests/histories/fixtures.py --checkers   adya and porcupine, too
"""
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "support"))

import checkers  # noqa: E402
import verdict  # noqa: E402

# What each shows, and who must find it besides our own checks.
TRANSACTIONS = {
    "held": "",
    "lost": "adya: an acknowledged append is not there in the end",
    "torn": "adya: of an unanswered transaction half is there in the end",
    "refused": "adya: what was refused is read",
    "twice": "adya: an append was done twice",
    "invented": "nobody appended it",
    "two-orders": "adya: two orders of one list",
    "stale": "adya: a read does not see what was acknowledged before it began",
    "released-early": "adya: a lock was given back before the commit: a read sees half",
    "write-skew": "adya: reads were not locked: each of two did not see the other",
    "crossed": "adya: two transactions in one order here and in another there",
    "unseen-own": "adya: a transaction does not see its own append",
    "wrong-length": "RPUSH was answered what another RPUSH was",
}
REGISTERS = {
    "held": "",
    "stale": "porcupine: a read does not see what was acknowledged before it began",
    "lost": "porcupine: what was acknowledged and read is gone again",
    "refused": "porcupine: what was refused is read",
    "torn": "porcupine: MGET sees half of an MSET",
    "swapped-twice": "porcupine only: two replace the same value",
    "not-swapped": "porcupine only: a value that was there was not replaced",
    "gone": "porcupine: absent after a write, and nobody deletes",
    "undone": "porcupine: an unanswered write is there, is not, and is again",
}


class Fixtures(unittest.TestCase):
    checkers = None

    def test_all_are_named(self):
        names = {path.stem for path in (HERE / "fixtures").iterdir()}
        self.assertEqual(names, {f"transactions-{name}" for name in TRANSACTIONS} | {f"registers-{name}" for name in REGISTERS})

    def test_transactions(self):
        for name, what in TRANSACTIONS.items():
            path = HERE / "fixtures" / f"transactions-{name}.jsonl"
            ops = checkers.read_transactions(path)
            with self.subTest(name):
                self.assertEqual(bool(verdict.problems(ops, [])), bool(what), f"own checks: {what}")
                if self.checkers:
                    self.assertEqual(bool(checkers.adya(self.checkers["adya"], path)), what.startswith("adya"), f"adya: {what}")

    def test_registers(self):
        for name, what in REGISTERS.items():
            path = HERE / "fixtures" / f"registers-{name}.jsonl"
            with self.subTest(name):
                found = verdict.problems([], checkers.read_registers(path))
                self.assertEqual(bool(found), bool(what) and "only" not in what, f"own checks: {what}")
                if self.checkers:
                    self.assertEqual(bool(checkers.porcupine(self.checkers["porcupine"], path)), bool(what), f"porcupine: {what}")

    def test_what_is_written_is_read(self):
        for kind, read, write in (("transactions", checkers.read_transactions, checkers.write_transactions),
                                  ("registers", checkers.read_registers, checkers.write_registers)):
            path = HERE / "fixtures" / f"{kind}-held.jsonl"
            with tempfile.NamedTemporaryFile("r") as file:
                write(read(path), file.name)
                self.assertEqual(file.read(), path.read_text())


if __name__ == "__main__":
    if "--checkers" in sys.argv:
        sys.argv.remove("--checkers")
        Fixtures.checkers = checkers.install()
    unittest.main()
