#!/usr/bin/env bash
# Starts one broker of an older (or the present) release of Apache Kafka, for tests of compatibility.
#
#   tests/servers/release.sh DIR VERSION        VERSION: one of 0.11.0.3 1.1.1 2.1.1 2.8.2 3.9.2 4.4.0
#
# DIR is made (or is an empty folder). The jars come from Maven Central into ${OTTLA_CACHE:-~/.cache/ottla}/release-VERSION.
# Up to 2.8 the broker has its ZooKeeper beside it (`DIR/zookeeper`), later it is its own controller. Returns when the broker
# lists itself, with DIR/env written as up.sh does, and OTTLA_RELEASE=VERSION. End it with down.sh DIR.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

(($# == 2)) && [[ $1 != -* ]] || { usage && exit 2; }
dir=$1
version=$2
lib=$CACHE/release-$version
zookeeper=yes
scala=2.12
# Newer ones than those releases had: they cannot be reached on Java 14 and later.
extra='<dependency><groupId>org.apache.zookeeper</groupId><artifactId>zookeeper</artifactId><version>3.5.10</version></dependency>'
case $version in
0.11.0.3)
    # Java 11 lost it.
    extra+='<dependency><groupId>javax.xml.bind</groupId><artifactId>jaxb-api</artifactId><version>2.3.1</version></dependency>'
    ;;
1.1.1 | 2.1.1) ;;
2.8.2)
    scala=2.13
    extra=''
    ;;
3.9.2 | 4.4.0)
    scala=2.13
    extra=''
    zookeeper=no
    ;;
*) die "$version is none of the releases that this script knows" ;;
esac

mkdir -p "$dir"
dir=$(cd "$dir" && pwd -P)
[[ -z $(ls -A "$dir") ]] || die "$dir is not empty"
touch "$dir/.ottla-run"
"$SERVERS/install.sh"
trap '"$SERVERS/down.sh" "$dir"' EXIT
trap 'exit 130' INT TERM HUP

fetch_release() {
    local dependency="<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_$scala</artifactId><version>$version</version></dependency>"
    fetch_jars "$lib" "kafka-clients-$version.jar" "$dependency$extra"
}
[[ -d $lib ]] || fetch_release

mkdir "$dir/broker-1" "$dir/zookeeper"
for try in 1 2 3; do
    pick_ports 2
    broker_port=${ports[0]}
    second_port=${ports[1]}
    echo "$broker_port" >"$dir/broker-1/port"
    {
        echo "listeners=PLAINTEXT://127.0.0.1:$broker_port$([[ $zookeeper == yes ]] || echo ",CONTROLLER://127.0.0.1:$second_port")"
        cat <<PROPERTIES
advertised.listeners=PLAINTEXT://127.0.0.1:$broker_port
log.dirs=$dir/broker-1/data
auto.create.topics.enable=false
delete.topic.enable=true
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=16777216
PROPERTIES
        if [[ $zookeeper == yes ]]; then
            cat <<PROPERTIES
broker.id=1
zookeeper.connect=127.0.0.1:$second_port
zookeeper.connection.timeout.ms=60000
PROPERTIES
        else
            cat <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$second_port
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
PROPERTIES
        fi
    } >"$dir/broker-1/server.properties"
    rm -rf "$dir/broker-1/data" "$dir/zookeeper/data"
    if [[ $zookeeper == yes ]]; then
        cat >"$dir/zookeeper/zookeeper.properties" <<PROPERTIES
dataDir=$dir/zookeeper/data
clientPort=$second_port
clientPortAddress=127.0.0.1
admin.enableServer=false
maxClientCnxns=0
PROPERTIES
        launch "$dir/zookeeper" java -Xmx256m -cp "$lib/*" \
            org.apache.zookeeper.server.ZooKeeperServerMain "$dir/zookeeper/zookeeper.properties"
    else
        java -cp "$lib/*" kafka.tools.StorageTool format -t AAAAAAAAAAAAAAAAAAAAAQ \
            -c "$dir/broker-1/server.properties" >"$dir/broker-1/log" 2>&1 </dev/null ||
            die "the storage could not be formatted: $(tail -n 5 "$dir/broker-1/log")"
    fi
    KAFKA_LIB=$lib launch_broker "$dir/broker-1"
    ready_or_dead() { gone "$dir/broker-1" || broker_serves "$dir/broker-1" 1; }
    await 120 ready_or_dead || die "Kafka $version was not ready within 120 s: $(tail -n 20 "$dir/broker-1/log")"
    if alive "$dir/broker-1"; then break; fi
    ((try < 3)) || die "Kafka $version ended while starting: $(tail -n 40 "$dir/broker-1/log")"
    "$SERVERS/down.sh" "$dir"
done

{
    echo "OTTLA_BOOTSTRAP=127.0.0.1:$broker_port"
    printf 'OTTLA_SERVERS=%q\n' "$dir"
    printf 'OTTLA_KAFKA_LIB=%q\n' "$lib"
    echo "OTTLA_RELEASE=$version"
} >"$dir/env.new"
mv "$dir/env.new" "$dir/env"
trap - EXIT
cat "$dir/env"
