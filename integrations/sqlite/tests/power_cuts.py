"""Cuts the power of a database's drive in the middle of transactions, and checks the database after each cut.

    power_cuts.py EXTENSION JOURNAL_MODE SYNCHRONOUS ROUNDS [allow-lost]

Prints the first cut after which the database is damaged or a commit is lost, with the reason, or "clean". With `allow-lost`,
commits may be lost as a whole, and are counted.
"""

import sqlite3
import sys

URI = "file:x.db?vfs=phaselink&drive=tlc-gen4"


def connect(journal_mode, synchronous):
    database = sqlite3.connect(URI, uri=True, isolation_level=None)
    database.execute("pragma temp_store = memory")
    if journal_mode == "wal":
        database.execute("pragma locking_mode = exclusive")
    database.execute(f"pragma journal_mode = {journal_mode}")
    database.execute(f"pragma synchronous = {synchronous}")
    database.execute("pragma cache_size = -64")
    return database


def commit(database, value):
    database.execute("begin")
    database.execute("update t set value = ?, filling = ?", (value, f"{value:08}" * 40))
    database.execute("commit")


def check(committed, setting):
    """The value that the database holds, or a text that says what is wrong with it."""
    try:
        database = connect(*setting)
        if (answer := database.execute("pragma integrity_check").fetchone()[0]) != "ok":
            return f"integrity_check: {answer.splitlines()[0]}"
        found = set(database.execute("select value, filling from t"))
        if len(found) != 1:
            return f"{len(found)} states of one transaction"
        ((value, filling),) = found
        if filling != f"{value:08}" * 40:
            return "a value is torn"
        if value > committed + 1:
            return f"value {value} after {committed} was committed"
        database.close()
        return value
    except sqlite3.Error as error:
        return f"{type(error).__name__}: {error}"


def main(extension, journal_mode, synchronous, rounds, *allowed):
    loader = sqlite3.connect(":memory:")
    loader.enable_load_extension(True)
    loader.load_extension(extension)
    setting = (journal_mode, synchronous)
    database = connect(journal_mode, "extra")
    database.execute("create table t(key integer primary key, value integer, filling text)")
    database.executemany("insert into t values(?, 0, ?)", [(key, "0" * 320) for key in range(20)])
    database.close()
    value = commits = lost = 0
    for cut in range(1, int(rounds) + 1):
        database = connect(*setting)
        database.execute("select phaselink_fail_power_after(?, ?)", (3 + cut * 7919 % 61, cut))
        try:
            while True:
                commit(database, value + 1)
                value += 1
                commits += 1
        except sqlite3.Error:
            database.close()
        found = check(value, setting)
        if isinstance(found, int) and found < value:
            lost += value - found
            if "allow-lost" not in allowed:
                found = f"commit {value} is lost"
        if isinstance(found, str):
            database = sqlite3.connect(URI, uri=True)
            return f"caught at power cut {cut}: {found}\n{database.execute('select phaselink_explain()').fetchone()[0]}"
        value = found
    return f"clean after {rounds} power cuts and {commits} commits" + (f", {lost} lost" if lost else "")


print(main(*sys.argv[1:]))
