#!/usr/bin/env bash
# Starts throw-away servers for tests: one Redis and a KRaft cluster of Apache Kafka, all on 127.0.0.1.
#
#   tests/servers/up.sh DIR [--brokers N] [--no-redis] [--set KEY=VALUE]...
#
# DIR is made (or is an empty folder, or that of a run that has ended). Defaults to 3 brokers, with Redis.
# --set adds a line to every broker's server.properties; a later line wins over an earlier one.
# Installs first what is missing (install.sh). Returns when every broker lists every broker, and with
#
#   DIR/env   OTTLA_BOOTSTRAP=127.0.0.1:PORT,...   OTTLA_REDIS=redis://127.0.0.1:PORT
#             OTTLA_SERVERS=DIR                    OTTLA_KAFKA_LIB=folder of Kafka's jars
#
# written:   set -a; . DIR/env; set +a; cargo test --features real-servers --test NAME
# Logs: DIR/broker-N/log, DIR/redis/log. End it with down.sh DIR. When up.sh fails nothing is left running.
#
# Each node is broker and controller: of three, any one may stop. Topics are not created by a mere
# mention: a test of a missing topic must see it missing, and a deleted topic must not come back because
# some client still asks for it. Files of a deleted segment go after a second, and cleaner and
# retention run every second or sooner, so that a test sees gaps and deleted offsets in seconds.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

(($# > 0)) && [[ $1 != -* ]] || { usage && exit 2; }
dir=$1
shift
brokers=3
redis=yes
extra=()
while (($# > 0)); do
    case "$1" in
    --brokers)
        [[ ${2:-} =~ ^[1-9]$ ]] || die "--brokers takes a number from 1 to 9"
        brokers=$2
        shift
        ;;
    --redis) redis=yes ;;
    --no-redis) redis=no ;;
    --set)
        [[ ${2:-} == *=* ]] || die "--set takes KEY=VALUE"
        extra+=("$2")
        shift
        ;;
    *) die "unknown option $1" ;;
    esac
    shift
done

mkdir -p "$dir"
dir=$(cd "$dir" && pwd -P)
if [[ -e $dir/.ottla-run ]]; then
    for folder in "$dir"/broker-? "$dir"/redis; do
        if alive "$folder"; then die "$dir: already up (down.sh $dir ends it)"; fi
    done
elif [[ -n $(ls -A "$dir") ]]; then
    die "$dir is not empty and not of a run of up.sh"
fi
touch "$dir/.ottla-run"
"$SERVERS/install.sh"

trap '"$SERVERS/down.sh" "$dir"' EXIT
trap 'exit 130' INT TERM HUP

# properties N: the server.properties of broker N. Ports: first those of the brokers, then those of the
# controllers.
properties() {
    local voters='' n
    for ((n = 1; n <= brokers; n++)); do voters+=",$n@127.0.0.1:${ports[brokers + n - 1]}"; done
    local replicas=$((brokers < 3 ? brokers : 3))
    local in_sync=$((brokers < 3 ? 1 : 2))
    cat <<PROPERTIES
process.roles=broker,controller
node.id=$1
controller.quorum.voters=${voters#,}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:${ports[$1 - 1]},CONTROLLER://127.0.0.1:${ports[brokers + $1 - 1]}
advertised.listeners=PLAINTEXT://127.0.0.1:${ports[$1 - 1]}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/broker-$1/data
auto.create.topics.enable=false
default.replication.factor=$replicas
min.insync.replicas=$in_sync
offsets.topic.replication.factor=$replicas
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=$replicas
transaction.state.log.min.isr=$in_sync
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=$replicas
share.coordinator.state.topic.min.isr=$in_sync
share.coordinator.state.topic.num.partitions=4
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=200
log.cleaner.dedupe.buffer.size=16777216
log.retention.check.interval.ms=1000
log.segment.delete.delay.ms=1000
PROPERTIES
    if ((${#extra[@]} > 0)); then printf '%s\n' "${extra[@]}"; fi
}

# prepare: folders, ports, configuration and formatted storage of every server.
prepare() {
    rm -rf "$dir"/broker-? "$dir/redis" "$dir/env"
    pick_ports $((2 * brokers + 1))
    local n folder cluster_id jobs=()
    # 16 bytes in base64, the first fixed: an id that began with '-' would be taken for an option
    cluster_id=$({ printf o && head -c 15 /dev/urandom; } | base64 | tr '+/' '-_' | tr -d '=')
    for ((n = 1; n <= brokers; n++)); do
        folder=$dir/broker-$n
        mkdir "$folder"
        echo "${ports[n - 1]}" >"$folder/port"
        properties "$n" >"$folder/server.properties"
        "$SERVERS/tool.sh" kafka.tools.StorageTool format -t "$cluster_id" \
            -c "$folder/server.properties" >"$folder/log" 2>&1 &
        jobs+=($!)
    done
    for ((n = 1; n <= brokers; n++)); do
        wait "${jobs[n - 1]}" || {
            cat "$dir/broker-$n/log" >&2
            die "the storage of broker $n could not be formatted"
        }
    done
    if [[ $redis == yes ]]; then
        mkdir "$dir/redis"
        echo "${ports[2 * brokers]}" >"$dir/redis/port"
    fi
}

launch_all() {
    local n
    for ((n = 1; n <= brokers; n++)); do launch_broker "$dir/broker-$n"; done
    if [[ $redis == yes ]]; then launch_redis "$dir/redis"; fi
}

# Sets `dead` to the folder of a server that has ended; fails while all run.
some_died() {
    local n
    for ((n = 1; n <= brokers; n++)); do
        dead=$dir/broker-$n
        if gone "$dead"; then return 0; fi
    done
    dead=$dir/redis
    [[ $redis == yes ]] && gone "$dead"
}

all_ready() {
    local n
    for ((n = 1; n <= brokers; n++)); do
        (($(broker_lists "${ports[n - 1]}" | wc -l) == brokers)) || return 1
    done
    [[ $redis == no ]] || redis_serves "$dir/redis"
}

ready_or_dead() {
    if some_died; then return 0; fi
    all_ready
}

for try in 1 2 3; do
    prepare
    launch_all
    await 120 ready_or_dead || {
        tail -n 20 "$dir"/*/log >&2
        die "the servers were not ready within 120 s"
    }
    if ! some_died; then break; fi
    if ((try == 3)) || ! grep -qi 'address already in use' "$dead/log"; then
        tail -n 60 "$dead/log" >&2
        die "${dead##*/} ended while starting; its log is above"
    fi
    "$SERVERS/down.sh" "$dir"
done

{
    bootstrap=$(printf ',127.0.0.1:%s' "${ports[@]:0:brokers}")
    echo "OTTLA_BOOTSTRAP=${bootstrap#,}"
    if [[ $redis == yes ]]; then echo "OTTLA_REDIS=redis://127.0.0.1:$(cat "$dir/redis/port")"; fi
    printf 'OTTLA_SERVERS=%q\n' "$dir"
    printf 'OTTLA_KAFKA_LIB=%q\n' "$KAFKA_LIB"
} >"$dir/env.new"
mv "$dir/env.new" "$dir/env"
trap - EXIT
cat "$dir/env"
