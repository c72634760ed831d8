#!/usr/bin/env bash
# Installs what the real servers of the tests need, as far as it is missing.
#
#   tests/servers/install.sh [jdk]
#
# From Debian (apt-get, as root or through sudo without a password): redis-server, kcat, a headless JRE,
# and Maven if Kafka is still to be fetched; with `jdk` also javac (for the tests that compile against
# Kafka's classes). From Maven Central: Apache Kafka with its command classes, into
# ${OTTLA_CACHE:-~/.cache/ottla}/kafka-VERSION. Nothing missing: takes a moment and touches nothing.
# Parallel calls wait for each other; an interrupted fetch leaves no half folder.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

want_jdk=no
case "${1:-}" in
'') ;;
jdk) want_jdk=yes ;;
*)
    usage
    exit 2
    ;;
esac

has() {
    command -v "$1" >/dev/null
}

# Fills `packages` with what is missing here.
missing_packages() {
    packages=()
    has redis-server && has redis-cli || packages+=(redis-server)
    has kcat || packages+=(kcat)
    if [[ $want_jdk == yes ]]; then
        has javac || packages+=(default-jdk-headless)
    else
        has java || packages+=(default-jre-headless)
    fi
    [[ -d $KAFKA_LIB ]] || has mvn || packages+=(maven)
}

install_packages() {
    local as_root=()
    [[ -e /etc/debian_version ]] && has apt-get ||
        die "this is not a Debian; install these (or what they hold) by hand: ${packages[*]}"
    if ((EUID != 0)); then
        has sudo && sudo -n true 2>/dev/null ||
            die "not root; run this once: apt-get install --no-install-recommends ${packages[*]}"
        as_root=(sudo -n)
    fi
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y
        -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
    echo "install.sh: from Debian: ${packages[*]}" >&2
    "${apt[@]}" update >&2 </dev/null || die "apt-get update failed"
    "${apt[@]}" install --no-install-recommends "${packages[@]}" >&2 </dev/null ||
        die "apt-get could not install: ${packages[*]}"
}

# A class of Kafka 4 needs Java 17; an older one only says "UnsupportedClassVersionError".
check_java() {
    local major
    major=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
    ((${major:-0} >= 17)) || die "Kafka $KAFKA_VERSION needs Java 17 or later, java is ${major:-unknown}"
}

fetch_kafka() {
    # The command classes; and without a binding the broker logs nothing.
    fetch_jars "$KAFKA_LIB" "kafka-clients-$KAFKA_VERSION.jar" "
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$KAFKA_VERSION</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$KAFKA_VERSION</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.3</version></dependency>"
}

missing_packages
if ((${#packages[@]} > 0)) || [[ ! -d $KAFKA_LIB ]]; then
    mkdir -p "$CACHE"
    exec 9>"$CACHE/install.lock"
    flock -w 1200 9 || die "another install.sh has held $CACHE/install.lock for 20 minutes"
    missing_packages # the one we waited for may have done it
    if ((${#packages[@]} > 0)); then install_packages; fi
    check_java
    [[ -d $KAFKA_LIB ]] || fetch_kafka
fi
