# One entry point for everything; `make` lists it.

# Where all is built once, what would make a second build quick costs a sixth of the first.
ifeq ($(CI),true)
export CARGO_INCREMENTAL ?= 0
endif

.PHONY: help build test format-check lint unit python explorer explorer-test explorer-quick screenshots advisories snapshots bench bench-model bench-serve bench-limits instructions kill soak fuzz mutants mutants-all sanity miri fit torture suites reproduce validation depends depends-check integrations pss-hour flash ecc crash dynamo docs docs-test book site release-check clean

help:
	@echo 'make build        the program, optimised: target/dist/phaselink'
	@echo 'make test         format, lints and all tests; what a change must pass'
	@echo 'make python       the Python package as a user installs it, in a fresh environment, and its tests'
	@echo 'make explorer     the simulator in a page of one file: target/explorer.html'
	@echo 'make explorer-test whether its figures are the command line'"'"'s, by node, and whether the page works, by Chromium'
	@echo 'make screenshots  renew the pictures of README.md and docs/reports.md; look at the difference'
	@echo 'make advisories   known weaknesses of what phaselink depends on; needs cargo-deny and the network'
	@echo 'make snapshots    renew stored tables and the examples in README.md; look at the difference'
	@echo 'make bench        speed against the budgets: bench-model and bench-serve, in this order'
	@echo 'make bench-model  simulations and embedded operations a second, memory, start-up'
	@echo 'make bench-serve  a served drive beside two bare threads, and beside nbdkit by fio'
	@echo 'make bench-limits a served drive against its limits, each passed or failed, in five minutes; wants a quiet machine'
	@echo 'make instructions instructions a simulated request, by valgrind, against those that are stored'
	@echo 'make kill         a server killed 200 times under load loses nothing'
	@echo 'make soak         a server under clients that die, stall and scribble, a full disk, SIGKILL; ten minutes (SOAK_SECONDS)'
	@echo 'make fuzz         every reader of bytes under libFuzzer, for a minute each'
	@echo 'make miri         the words and messages of shared memory under Miri, where there is a nightly toolchain that has it'
	@echo 'make mutants      small faults in what differs from BASE (main), and which of them no test notices; by cargo-mutants'
	@echo 'make mutants-all  the same for a sample (SHARD=0/100) of protocols, memories, link and served device; hours'
	@echo 'make sanity       what must hold for any drive and job, on thousands of them; some minutes'
	@echo 'make fit          values hidden in 100 drives, found again from their results; some minutes'
	@echo 'make suites       nvme-cli, smartctl, blkdiscard and fio in a guest that runs from a served drive; some minutes'
	@echo 'make torture      ten thousand random drives, jobs and faults with real bytes, and as many histories of several hosts; some minutes'
	@echo 'make reproduce    published results beside simulated ones'
	@echo 'make depends      which constants in doubt move each result, measured anew; some minutes a paper'
	@echo 'make depends-check whether that is up to date'
	@echo 'make integrations redb, SQLite, turmoil, madsim and moonpool on embedded drives, with thousands of power cuts; at most five minutes'
	@echo 'make dynamo       NVIDIA Dynamo'"'"'s simulator of inference servers with drives as its storage tier, and its own tests; ten minutes'
	@echo 'make pss-hour     the PSS card under random writes for a simulated hour'
	@echo 'make flash        write amplification of every spare beside its closed form, at full size'
	@echo 'make ecc          32 million damaged sectors, decoded and compared with the truth'
	@echo 'make crash        the applications of examples/crash, each under 1000 power cuts, and what an image costs'
	@echo 'make book         the documentation as a book, by mdBook: target/book/html'
	@echo 'make site         book, explorer and reports as one static site: target/site'
	@echo 'make release-check rehearse a release: a line for each artefact, its size and how it was tried'
	@echo 'make docs-test    every command and block of the documentation, those that take long too'
	@echo 'make docs         documentation of the library, in target/doc'
	@echo 'make clean        remove what was built'

# One more than `cargo build --release` does: link-time optimisation, as in the programs that are installed and measured.
build:
	cargo build --profile dist

test: format-check lint unit

# rustfmt and clippy are separate components of the toolchain, and may be missing: with CI=true, that is a failure.
format-check:
	@if cargo fmt --version >/dev/null 2>&1; then cargo fmt --all --check; \
	else echo 'rustfmt is not installed: the format is not checked'; test "$$CI" != true; fi

lint:
	@if cargo clippy --version >/dev/null 2>&1; then cargo clippy --workspace --all-targets -- -D warnings; \
	else echo 'clippy is not installed: lints are not checked'; test "$$CI" != true; fi

unit:
	cargo test --workspace

# `unit` tests the package as well, as cargo has built it.
python:
	crates/python/test.sh wheel

explorer:
	crates/wasm/explorer.sh build

explorer-test:
	crates/wasm/explorer.sh test

# With the program that `unit` has built.
explorer-quick:
	crates/wasm/explorer.sh quick

screenshots:
	cargo build --release -p phaselink
	crates/cli/docs/screenshots.sh $${CARGO_TARGET_DIR:-target}/release/phaselink

# Licences and sources are checked by a test, without a network; the database of advisories has to be fetched.
advisories:
	@if ! cargo deny --version >/dev/null 2>&1; then \
		echo 'cargo-deny is not installed (cargo install cargo-deny --locked): advisories are NOT checked'; \
	elif ! cargo deny fetch db; then \
		echo 'the database of advisories cannot be fetched: advisories are NOT checked'; \
	else cargo deny check advisories; fi

snapshots:
	UPDATE_EXPECT=1 cargo test --workspace

bench: bench-model bench-serve

bench-model:
	cargo bench -p phaselink --bench budgets
	cargo bench -p phaselink-embed-c --bench rate
	crates/python/test.sh bench

bench-serve: build
	cargo bench -p phaselink-serve --bench shm --bench vfio_user --bench nvme_tcp
	benches/serve.sh "$${CARGO_TARGET_DIR:-target}/dist/phaselink"

bench-limits:
	cargo bench -p phaselink-serve --bench limits

instructions:
	cargo bench -p phaselink-studies --bench instructions

kill:
	KILL_ROUNDS=200 cargo test -p phaselink --test program -- kill:: --nocapture

soak:
	cargo test --release -p phaselink --test program -- soak:: --include-ignored --nocapture

crash:
	CRASH_IMAGES=1000 cargo test --release -p phaselink --test program -- crash:: --include-ignored --nocapture --test-threads=1

fuzz:
	fuzz/fuzz.sh

# It knows neither the instructions that copy lines nor mapped files, and trailers are tried too often for it.
miri:
	@if cargo +nightly miri --version >/dev/null 2>&1; then \
		MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test -p phaselink-ring -p phaselink-client --lib -- chunk:: command:: greeting:: layout::; \
	else echo 'Miri is not installed (rustup component add --toolchain nightly miri rust-src): nothing is tried'; fi

MUTANTS = @if ! cargo mutants --version >/dev/null 2>&1; then \
		echo 'cargo-mutants is not installed (cargo install cargo-mutants --locked): no mutants are tried'; test "$$CI" != true; \
	else
BASE = main
# Part K/N of all mutants of the listed files: each part takes about as long as the others.
SHARD = 0/100

mutants:
	$(MUTANTS) mkdir -p target && git diff $(BASE) > target/mutants.diff && cargo mutants --in-diff target/mutants.diff; fi

mutants-all:
	$(MUTANTS) cargo mutants --shard $(SHARD) --file 'crates/core/src/protocol/**' --file 'crates/core/src/media/**' \
		--file 'crates/core/src/link/**' --file 'crates/serve/src/nvme/**' --file 'crates/serve/src/front/**'; fi

sanity:
	cargo test --release -p phaselink-studies --test library -- sanity:: --include-ignored --nocapture

fit:
	cargo test --release -p phaselink-studies --test library -- fit:: --include-ignored --nocapture

suites:
	cargo build --release
	crates/cli/tests/guest/suites.sh "$${CARGO_TARGET_DIR:-target}/release/phaselink"
	PHASELINK_PATH_LOSSES=50 cargo test --workspace --test program linux_multipath_sees_no_error

torture:
	cargo run --release -- torture --seeds 10000
	cargo test --release -p phaselink-core --lib torture -- --include-ignored
	cargo test --release -p phaselink-serve --lib history_tests -- --include-ignored --nocapture

reproduce:
	cargo run --release -- reproduce

# Measurements beside the model's values, and the folds of the cross-validation, as a page of the data set.
validation:
	cargo build --release
	{ printf '# Measurements beside the model\n\n%s, commit %s. Renewed by `make validation`.\n\n## Shipped descriptions\n\n' "$$(date -u +%F)" "$$(git rev-parse --short HEAD)"; \
	  target/release/phaselink validate --markdown; printf '\n## Folds\n\n'; \
	  target/release/phaselink validate --folds --curve --markdown; } > target/validation.md
	mv target/validation.md crates/studies/validation/README.md
	target/release/phaselink validate --evidence > target/evidence.toml
	mv target/evidence.toml crates/studies/src/evidence.toml

# Drives described from their data sheets beside their measured tails under load.
tails:
	cargo run --release -- validate --tails

# After a change of models, presets or plans; look at the difference.
depends:
	cargo run --release -- reproduce --depends=crates/studies/reproductions > /dev/null || test $$? -eq 1

# Whether `make depends` has been run since presets, drives or plans changed what is in doubt.
depends-check:
	cargo test -p phaselink-cli --lib -- --ignored dependence_is_measured

# A workspace of its own, with its target in target/integrations.
integrations:
	@if cargo fmt --version >/dev/null 2>&1; then cd integrations && cargo fmt --all --check; \
	else echo 'rustfmt is not installed: the format is not checked'; test "$$CI" != true; fi
	@if cargo clippy --version >/dev/null 2>&1; then cd integrations && cargo clippy --locked --all-targets -- -D warnings; \
	else echo 'clippy is not installed: lints are not checked'; test "$$CI" != true; fi
	cd integrations && cargo test --locked -- --nocapture

# A workspace of its own beside the others, which do without its three hundred crates. Its packages share one target.
dynamo: export CARGO_TARGET_DIR = $(CURDIR)/target/integrations
dynamo: export RUSTFLAGS = --cfg madsim
dynamo:
	integrations/dynamo/tier/prepare
	cd integrations/dynamo && cargo fmt --all --check && cargo clippy --locked --all-targets -- -D warnings
	cd integrations/dynamo && cargo test --locked
	cd target/dynamo/packages/aisimulate-core && cargo test --lib offload
	cd target/dynamo/packages/dynamo-mocker && cargo test

pss-hour:
	cargo run --release -- run pss --rw randwrite --bs 4k --runtime 3600s -O ramp_time=1s

flash:
	cargo test --release -p phaselink-core --lib media::translation -- --include-ignored --nocapture

ecc:
	cargo run --release -- ecc --inject 4000000 --trials 100000

book:
	crates/cli/docs/book.sh

site:
	cargo build -p phaselink
	release/site.sh "$${CARGO_TARGET_DIR:-target}/debug/phaselink" "$${CARGO_TARGET_DIR:-target}/site"

release-check:
	release/check.sh

# `unit` runs all but the blocks that take long. `--workspace`, since with `-p` cargo turns on fewer features of dependencies, and
# would compile these and all crates anew.
docs-test:
	PAGES=all cargo test --workspace --test program -- book::

docs:
	cargo doc --workspace --no-deps

clean:
	cargo clean
