#!/usr/bin/env bash
# Brings what the tests of the wire compare with: Kafka's own schemas and classes.
#
#   tests/oracle/prepare.sh
#
# Prints one line per release, newest first: VERSION, folder of the jars, folder of the message schemas
# (JSON). The newest is the release of the test servers. The older one, its client library only, still has
# the versions that Kafka 4 dropped; it is fetched from Maven Central into ${OTTLA_CACHE:-~/.cache/ottla}.
# Nothing missing: takes a moment and touches nothing. Parallel calls wait for each other.
set -euo pipefail
SERVERS=$(cd "$(dirname "$0")/../servers" && pwd)
. "$SERVERS/lib.sh"

OLD_VERSION=3.9.2
OLD_LIB=$CACHE/kafka-clients-$OLD_VERSION

"$SERVERS/install.sh" jdk

# schemas VERSION LIB: unpacks them beside the jars and prints the release's line.
schemas() {
    local folder=$CACHE/schemas-$1
    if [[ ! -d $folder ]]; then
        local work
        work=$(mktemp -d "$CACHE/schemas.XXXXXX")
        (cd "$work" && jar xf "$2/kafka-clients-$1.jar" common/message)
        mv -T "$work/common/message" "$folder"
        rm -rf "$work"
    fi
    echo "$1 $2 $folder"
}

fetch_old_clients() {
    local work
    command -v mvn >/dev/null || die "Maven is needed once: apt-get install --no-install-recommends maven"
    work=$(mktemp -d "$CACHE/fetch.XXXXXX")
    cat >"$work/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId>
  <artifactId>oracle</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId><version>$OLD_VERSION</version></dependency>
  </dependencies>
</project>
POM
    mvn -q -B -Dstyle.color=never -f "$work/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$work/lib" >&2 </dev/null ||
        die "kafka-clients $OLD_VERSION could not be fetched from Maven Central"
    mv -T "$work/lib" "$OLD_LIB"
    rm -rf "$work"
}

exec 8>"$CACHE/oracle.lock"
flock -w 600 8 || die "another prepare.sh has held $CACHE/oracle.lock for 10 minutes"
[[ -d $OLD_LIB ]] || fetch_old_clients
schemas "$KAFKA_VERSION" "$KAFKA_LIB"
schemas "$OLD_VERSION" "$OLD_LIB"
