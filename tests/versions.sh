#!/usr/bin/env bash
# Runs tests/versions.rs on releases of Apache Kafka, one broker each, one after the other.
#
#   tests/versions.sh [VERSION...]        without: 0.11.0.3 1.1.1 2.1.1 2.8.2 3.9.2
#
# Prints the tests' own output, and exits with 0 only if every release passed. Needs what tests/all.sh needs; the jars
# of the releases come from Maven Central, once.
set -euo pipefail
cd "$(dirname "$0")/.."

(($# > 0)) || set -- 0.11.0.3 1.1.1 2.1.1 2.8.2 3.9.2
work=$(mktemp -d "${TMPDIR:-/tmp}/ottla-versions.XXXXXX")
running=
finish() {
    local code=$?
    trap - EXIT
    if [[ -n $running ]]; then tests/servers/down.sh "$running" || code=1; fi
    if ((code == 0)); then rm -rf "$work"; else echo "versions.sh: kept for a look: $work" >&2; fi
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

failed=()
for version in "$@"; do
    running=$work/$version
    echo "versions.sh: Kafka $version"
    tests/servers/release.sh "$running" "$version"
    if ! (
        set -a
        . "$running/env"
        set +a
        cargo test --features real-servers --test versions
    ); then failed+=("$version"); fi
    tests/servers/down.sh "$running"
    running=
done
if ((${#failed[@]} > 0)); then
    echo "versions.sh: failed on ${failed[*]}" >&2
    exit 1
fi
