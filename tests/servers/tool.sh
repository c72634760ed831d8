#!/usr/bin/env bash
# Runs a class of Apache Kafka (or one compiled against it) with the jars that install.sh fetched.
#
#   tests/servers/tool.sh [-cp FOLDER] CLASS [ARGUMENT]...
#   tests/servers/tool.sh org.apache.kafka.tools.TopicCommand --bootstrap-server HOST:PORT --list
#   tests/servers/tool.sh org.apache.kafka.tools.consumer.group.ConsumerGroupCommand --bootstrap-server ... --describe --group G
#
# -cp puts a folder of classes before Kafka's. Replaces itself by java: a signal reaches the class. Needs no server.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

path="$KAFKA_LIB/*" # java expands the star
if [[ ${1:-} == -cp ]]; then
    (($# >= 2)) || { usage && exit 2; }
    path=$2:$path
    shift 2
fi
(($# > 0)) && [[ $1 != -* ]] || { usage && exit 2; }
command -v java >/dev/null && [[ -d $KAFKA_LIB ]] || die "run tests/servers/install.sh first"
# Short-lived: no time for the optimising compiler or a parallel collector to pay off.
exec java -Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$path" "$@"
