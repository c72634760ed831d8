#!/usr/bin/env bash
# Does something to the Redis of a run of up.sh, for tests of outages.
#
#   tests/servers/redis.sh DIR stop|kill|freeze|thaw|start
#
# stop    clean end (TERM)
# kill    sudden end (KILL)
# freeze  the process stands still (STOP), its connections stay open
# thaw    the process goes on (CONT)
# start   starts it at the same port and waits until it answers. It keeps nothing on disk: it comes back empty.
# What is already as asked is no error.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

(($# == 2)) || { usage && exit 2; }
dir=$(run_folder "$1")
folder=$dir/redis
[[ -d $folder ]] || die "$dir was started without Redis"

case "$2" in
stop) stop_clean "$folder" 15 || die "Redis did not stop within 15 s" ;;
kill) kill_hard "$folder" || die "Redis survived KILL" ;;
freeze) if alive "$folder"; then signal STOP "$folder"; else die "Redis does not run"; fi ;;
thaw) if alive "$folder"; then signal CONT "$folder"; else die "Redis does not run"; fi ;;
start)
    if gone "$folder"; then launch_redis "$folder"; fi
    await 15 redis_serves "$folder" || {
        tail -n 20 "$folder/log" >&2
        die "Redis did not answer within 15 s"
    }
    ;;
*)
    usage
    exit 2
    ;;
esac
