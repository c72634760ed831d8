#!/usr/bin/env bash
# Builds the clients and compares them on one broker of Apache Kafka.
#
#   benches/peers/run.sh [bootstrap=HOST:PORT] [rounds=3] [records=4000000] [minutes=30] [only=WORD,...]
#
# Without bootstrap it starts a broker of its own on 127.0.0.1 (tests/servers/up.sh; it installs Kafka, a JRE
# and so on if missing) and ends it again. Needs a C++ compiler and make, and some 5 GB of disk in
# ${TMPDIR:-/tmp}. The table goes to standard output, every run to standard error. README.md says
# what the figures mean.
set -euo pipefail
cd "$(dirname "$0")"

cargo build --release --locked
peers=${CARGO_TARGET_DIR:-target}/release/peers

if [[ " $*" == *" bootstrap="* ]]; then
    exec "$peers" "$@"
fi

servers=../../tests/servers
run=$(mktemp -d "${TMPDIR:-/tmp}/ottla-peers.XXXXXX")
finish() {
    trap - EXIT
    if [[ -e $run/broker/.ottla-run ]]; then "$servers/down.sh" "$run/broker"; fi
    rm -rf "$run"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP
"$servers/up.sh" "$run/broker" --brokers 1 --no-redis >&2
# shellcheck source=/dev/null
. "$run/broker/env"
"$peers" "bootstrap=$OTTLA_BOOTSTRAP" "$@"
