#!/usr/bin/env bash
# Runs every check of the project: format, lints, documentation, and every test, on real servers.
#
#   tests/all.sh
#
# Needs a Debian machine with Rust and a C compiler; the rest it installs (tests/servers/install.sh).
# Starts one Redis and three brokers of Apache Kafka in a folder of their own, and ends them again. Each
# step shows its output and its duration. The last line is the count of all of them:
#
#   N passed, N failed[, N skipped]
#
# where format, lints, documentation and older releases of Kafka count as one test each. Exits with 0 only if nothing failed. When
# something failed, the folder of the servers (with their logs) is kept and named.
# One test again:  tests/servers/up.sh DIR; set -a; . DIR/env; set +a
#                  cargo test --all-features --test FILE NAME; tests/servers/down.sh DIR
set -euo pipefail
cd "$(dirname "$0")/.."

passed=0
failed=0
skipped=0
work=$(mktemp -d "${TMPDIR:-/tmp}/ottla-tests.XXXXXX")
export CARGO_TERM_COLOR=never
# Without a terminal nobody can interrupt a test that hangs.
bound=()
[[ -t 0 ]] || bound=(timeout -k 10 1800)

finish() {
    local code=$?
    trap - EXIT
    if [[ -e $work/servers/.ottla-run ]]; then
        tests/servers/down.sh "$work/servers" || failed=$((failed + 1))
    fi
    # ended by a signal or by a fault of this script: never a success
    if ((code != 0 && failed == 0)); then failed=1; fi
    if ((failed > 0)); then echo "== kept for a look: $work"; else rm -rf "$work"; fi
    if ((skipped > 0)); then
        echo "$passed passed, $failed failed, $skipped skipped"
    else
        echo "$passed passed, $failed failed"
    fi
    ((failed == 0)) && exit 0
    exit 1
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

# timed NAME COMMAND...: runs it between a headline and a line with its outcome and duration.
timed() {
    local name=$1 begin=$SECONDS outcome=ok
    shift
    echo "== $name: $*"
    "$@" 2>&1 || outcome=FAILED
    echo "== $name: $outcome, $((SECONDS - begin)) s"
    [[ $outcome == ok ]]
}

# check NAME COMMAND...: a step that counts as one test.
check() {
    if timed "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# needed NAME COMMAND...: a step without which the rest makes no sense; it counts only when it fails.
needed() {
    if ! timed "$@"; then
        failed=$((failed + 1))
        exit 1
    fi
}

rust_components() {
    local component
    for component in fmt:rustfmt clippy:clippy; do
        cargo "${component%:*}" --version >/dev/null 2>&1 && continue
        rustup component add "${component#*:}" || {
            echo "cargo ${component%:*} is missing and rustup could not add it"
            return 1
        }
    done
}

tests() {
    "${bound[@]}" cargo test --all-features --no-fail-fast 2>&1 | tee "$work/tests.log"
}

# Adds up every "test result:" line, one for each test binary and for the documentation's tests.
count_tests() {
    local line before=$failed
    while read -r line; do
        [[ $line =~ ^test\ result:\ [A-Za-z]+\.\ ([0-9]+)\ passed\;\ ([0-9]+)\ failed\;\ ([0-9]+)\ ignored ]] || continue
        passed=$((passed + BASH_REMATCH[1]))
        failed=$((failed + BASH_REMATCH[2]))
        skipped=$((skipped + BASH_REMATCH[3]))
    done <"$work/tests.log"
    # did not build, ended without a result, or was ended by the time limit
    if [[ $1 == bad ]] && ((failed == before)); then failed=$((failed + 1)); fi
}

needed components rust_components
needed install tests/servers/install.sh jdk
check format cargo fmt --check
check lints cargo clippy --all-targets --all-features -- -D warnings
check documentation env RUSTDOCFLAGS="-D warnings" \
    cargo doc --no-deps --document-private-items --all-features
needed servers tests/servers/up.sh "$work/servers"
set -a
. "$work/servers/env"
set +a
if timed tests tests; then count_tests good; else count_tests bad; fi
# The oldest release, and one that still has topic ids and ZooKeeper; versions.sh alone runs them all.
check versions "${bound[@]}" tests/versions.sh 0.11.0.3 2.8.2
