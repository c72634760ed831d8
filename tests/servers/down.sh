#!/usr/bin/env bash
# Ends every server of a run: TERM, at most 5 s of waiting, KILL. Logs and data stay in DIR.
#
#   tests/servers/down.sh DIR
#
# May be called again, or on a run that failed half-way. The wait is short because brokers that stop
# together lose their quorum and then sit out a time-out each, and because their data is thrown away.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

(($# == 1)) && [[ $1 != -* ]] || { usage && exit 2; }
dir=$(run_folder "$1")

folders=()
for folder in "$dir"/broker-? "$dir/redis" "$dir/zookeeper"; do
    if alive "$folder"; then folders+=("$folder"); fi
done

all_gone() {
    local folder
    for folder in "${folders[@]}"; do
        gone "$folder" || return 1
    done
}

for name in TERM CONT; do
    for folder in "${folders[@]}"; do signal "$name" "$folder"; done
done
if ! await 5 all_gone; then
    for folder in "${folders[@]}"; do signal KILL "$folder"; done
    await 10 all_gone || die "a server of $dir survived KILL"
fi
rm -f "$dir"/*/pid "$dir"/*/birth "$dir/env"
