"""Transfers between the accounts of a SQLite database, and whether they have survived.

    sqlite.py make FOLDER SYNCHRONOUS [JOURNAL]   accounts with money
    sqlite.py run FOLDER SYNCHRONOUS [JOURNAL]    transfers; each is reported on standard output once it is committed
    sqlite.py check FOLDER PRINTED                the database is sound, no money is lost, no reported transfer is missing

SYNCHRONOUS and JOURNAL are SQLite's pragmas: OFF, NORMAL, FULL or EXTRA, and PERSIST (the default), DELETE, TRUNCATE or WAL.
PERSIST keeps the journal in its place; its end is a header of zeros, which SQLite flushes.
"""

import os
import sqlite3
import sys

ACCOUNTS = 100
MONEY = 1000
TRANSFERS = 25
# Long enough for the accounts to be on many pages of the database.
NOTE = "x" * 400


def connect(folder, synchronous, journal="PERSIST"):
    database = sqlite3.connect(os.path.join(folder, "bank.db"), isolation_level=None)
    database.execute(f"PRAGMA journal_mode = {journal}")
    database.execute(f"PRAGMA synchronous = {synchronous}")
    return database


def make(folder, *pragmas):
    database = connect(folder, *pragmas)
    database.execute("CREATE TABLE account (number INTEGER PRIMARY KEY, money INTEGER, note TEXT)")
    database.execute("CREATE TABLE done (transfers INTEGER)")
    database.execute("INSERT INTO done VALUES (0)")
    database.execute("BEGIN")
    database.executemany("INSERT INTO account VALUES (?, ?, ?)", ((number, MONEY, NOTE) for number in range(ACCOUNTS)))
    database.execute("COMMIT")


def run(folder, *pragmas):
    database = connect(folder, *pragmas)
    for transfer in range(1, TRANSFERS + 1):
        database.execute("BEGIN")
        for giver in range(0, ACCOUNTS, 10):
            taker = (giver + 37 * transfer) % ACCOUNTS
            database.execute("UPDATE account SET money = money - ? WHERE number = ?", (transfer, giver))
            database.execute("UPDATE account SET money = money + ? WHERE number = ?", (transfer, taker))
        database.execute("UPDATE done SET transfers = ?", (transfer,))
        database.execute("COMMIT")
        print(transfer, flush=True)


def check(folder, printed):
    with open(printed) as lines:
        reported = max((int(line) for line in lines), default=0)
    database = sqlite3.connect(os.path.join(folder, "bank.db"), isolation_level=None)
    found = database.execute("PRAGMA integrity_check").fetchone()[0]
    if found != "ok":
        sys.exit(f"the database is damaged: {found}")
    money, done = database.execute("SELECT sum(money), (SELECT transfers FROM done) FROM account").fetchone()
    if money != ACCOUNTS * MONEY:
        sys.exit(f"there is {money} instead of {ACCOUNTS * MONEY}: a transfer was done in part")
    if done < reported:
        sys.exit(f"transfer {reported} was reported as committed, and only {done} have survived")


actions = {"make": make, "run": run, "check": check}
if len(sys.argv) not in (4, 5) or sys.argv[1] not in actions:
    sys.exit(__doc__)
actions[sys.argv[1]](*sys.argv[2:])
