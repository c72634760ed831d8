#!/usr/bin/env bash
# Fuzzes each target for some seconds, one after the other.
#
#   fuzz/run.sh SECONDS [TARGET...]
#
# Starts from the kept corpus (`corpus/`); what is new goes to `found/`, which keep.sh sifts. Prints one line per
# target with its number of executions. An input that fails is kept in `artifacts/` and named; the exit
# code says whether there was one.
set -euo pipefail
. "$(dirname "$0")/common.sh"

[[ ${1:-} =~ ^[0-9]+$ ]] || {
    usage
    exit 2
}
seconds=$1
shift

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
for target in $(targets "$@"); do
    mkdir -p "found/$target" "corpus/$target"
    outcome=ok
    "${cargo[@]}" fuzz run "$target" "found/$target" "corpus/$target" -- \
        "${limits[@]}" -max_total_time="$seconds" >"$log" 2>&1 || outcome=FAILED
    runs=$(sed -n 's/^Done \([0-9]*\) runs in .*/\1/p' "$log")
    coverage=$(sed -n 's/.*cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    echo "$target: $outcome, ${runs:-?} executions, ${coverage:-?} edges"
    if [[ $outcome == FAILED ]]; then
        failed=1
        grep -A 2 panicked "$log" || tail -n 40 "$log"
        find "artifacts/$target" -type f
    fi
done
exit "$failed"
