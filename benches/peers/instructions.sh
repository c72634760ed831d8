#!/usr/bin/env bash
# Counts Ottla's instructions per record under callgrind, on one broker of Apache Kafka.
#
#   benches/peers/instructions.sh [bootstrap=HOST:PORT] [records=100000] [only=WORD,...]
#
# Builds into a folder of its own: valgrind does not run what rustix does with the kernel's vDSO, so
# rustix is told to use libc, and Ottla and the driver alone are built. Without bootstrap it starts a
# broker and ends it again, like run.sh. The table goes to standard output.
set -euo pipefail
cd "$(dirname "$0")"

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/callgrind
RUSTFLAGS='--cfg rustix_use_libc' cargo build --release --locked -p peers -p ott
peers=$CARGO_TARGET_DIR/release/peers

if [[ " $*" == *" bootstrap="* ]]; then
    exec "$peers" instructions "$@"
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
"$peers" instructions "bootstrap=$OTTLA_BOOTSTRAP" "$@"
