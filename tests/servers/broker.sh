#!/usr/bin/env bash
# Does something to brokers of a run of up.sh, for tests of outages.
#
#   tests/servers/broker.sh DIR stop|kill|freeze|thaw|start N...
#
# stop    clean end (TERM; its leaders move first), waits at most 60 s for it
# kill    sudden end (KILL), waits until it is gone
# freeze  the process stands still (STOP), its connections stay open
# thaw    the process goes on (CONT)
# start   starts what is stopped, waits until it serves again, at most 60 s. A broker can only serve when
#         most of the nodes run: name those that are to come back together in one call.
# What is already as asked is no error.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

(($# >= 3)) || { usage && exit 2; }
dir=$(run_folder "$1")
action=$2
shift 2
for n in "$@"; do
    [[ $n =~ ^[1-9]$ && -d $dir/broker-$n ]] || die "$dir has no broker $n"
done

for n in "$@"; do
    folder=$dir/broker-$n
    case "$action" in
    stop) stop_clean "$folder" 60 || die "broker $n did not stop within 60 s" ;;
    kill) kill_hard "$folder" || die "broker $n survived KILL" ;;
    freeze) if alive "$folder"; then signal STOP "$folder"; else die "broker $n does not run"; fi ;;
    thaw) if alive "$folder"; then signal CONT "$folder"; else die "broker $n does not run"; fi ;;
    start) if gone "$folder"; then launch_broker "$folder"; fi ;;
    *)
        usage
        exit 2
        ;;
    esac
done
[[ $action == start ]] || exit 0
for n in "$@"; do
    folder=$dir/broker-$n
    await 60 broker_serves "$folder" "$n" || {
        tail -n 40 "$folder/log" >&2
        die "broker $n did not serve within 60 s"
    }
done
