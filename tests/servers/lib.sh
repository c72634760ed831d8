# shellcheck shell=bash disable=SC2034
# What the scripts of this folder share. Sourced, never run.
#
# A run of servers lives in one folder DIR: `DIR/broker-N` and `DIR/redis`, each with `pid`, `birth`,
# `port`, `log` and its data; `DIR/env` describes the run to clients. A process is ours only if it was
# also born when ours was: the kernel may have given its id to somebody else meanwhile.

KAFKA_VERSION=4.4.0
SERVERS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${OTTLA_CACHE:-${HOME:?}/.cache/ottla}
KAFKA_LIB=$CACHE/kafka-$KAFKA_VERSION

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# Prints the script's own head comment: its manual.
usage() {
    sed -n '2,/^[^#]/{/^#/!d;s/^# \{0,1\}//;p}' "$0"
}

# run_folder DIR: its absolute path; a run must exist there.
run_folder() {
    [[ -e ${1:?}/.ottla-run ]] || die "$1 is not a folder made by up.sh"
    (cd "$1" && pwd -P)
}

# born_at PID: when it started, in ticks since boot. Fails if it has ended: also for a zombie, for in many
# containers nobody reaps those. A zombie with threads is still ending and holds its port.
born_at() {
    local stat="" fields
    { read -r -d "" stat <"/proc/$1/stat"; } 2>/dev/null || [[ -n $stat ]] || return 1
    read -r -a fields <<<"${stat##*) }" # from the third field on: the second, a name, may hold blanks
    [[ ${fields[0]} != Z ]] || ((fields[17] > 1)) || return 1
    echo "${fields[19]}"
}

# alive FOLDER: does the process of FOLDER/pid run, and is it ours?
alive() {
    local pid
    [[ -s $1/pid && -s $1/birth ]] || return 1
    pid=$(<"$1/pid")
    [[ $(born_at "$pid") == "$(<"$1/birth")" ]]
}

gone() {
    ! alive "$1"
}

# signal NAME FOLDER: a process that is gone is no error.
signal() {
    if alive "$2"; then kill -s "$1" "$(cat "$2/pid")" 2>/dev/null || true; fi
}

# await SECONDS COMMAND...: polls until COMMAND succeeds; fails when the time is up.
await() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
}

# launch FOLDER COMMAND...: in the background, in a session of its own, holding none of our descriptors.
launch() {
    local folder=$1
    shift
    (
        cd "$folder" || exit
        setsid "$@" </dev/null >>log 2>&1 9>&- &
        born_at $! >birth || true # it may have ended already, which is for the caller to find
        echo $! >pid
    )
}

# stop_clean FOLDER SECONDS: TERM (and CONT, else a frozen one never sees it), then wait.
stop_clean() {
    signal TERM "$1"
    signal CONT "$1"
    await "$2" gone "$1"
}

kill_hard() {
    signal KILL "$1"
    await 10 gone "$1"
}

launch_broker() {
    # The default log configuration of log4j goes to standard output; only its level is ours.
    launch "$1" java -Xms128m -Xmx512m -Dlog4j2.level=INFO -Djava.awt.headless=true \
        -cp "$KAFKA_LIB/*" kafka.Kafka "$1/server.properties"
}

# broker_lists PORT: ids of the brokers that the broker at PORT knows, one a line.
broker_lists() {
    kcat -b "127.0.0.1:$1" -L -m 3 2>/dev/null | sed -n 's/^ *broker \([0-9]*\) at .*/\1/p'
}

# broker_serves FOLDER N: answers Metadata and lists itself, so that the controller takes it for alive.
broker_serves() {
    broker_lists "$(cat "$1/port")" | grep -qx "$2"
}

launch_redis() {
    launch "$1" redis-server --port "$(cat "$1/port")" --bind 127.0.0.1 --save '' --appendonly no \
        --maxmemory-policy noeviction --daemonize no --dir "$1"
}

redis_serves() {
    [[ $(redis-cli -h 127.0.0.1 -p "$(cat "$1/port")" ping 2>/dev/null) == PONG ]]
}

# Sets `ports` to $1 different ports at which nobody listens now. They lie below the range from which
# the kernel takes ports for outgoing connections, so no client gets one by chance; another run may pick
# the same before we bind, and then the caller tries again with others.
pick_ports() {
    local -A taken=()
    local port hex
    while read -r hex; do taken[$((16#$hex))]=1; done < <(
        cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | sed -n 's/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]*\) .*/\1/p'
    )
    ports=()
    while ((${#ports[@]} < $1)); do
        port=$((15000 + (RANDOM * 32768 + RANDOM) % 15000))
        [[ -z ${taken[$port]:-} ]] || continue
        taken[$port]=1
        ports+=("$port")
    done
}

# fetch_jars FOLDER JAR DEPENDENCIES: brings what a pom with DEPENDENCIES needs at run time from Maven Central into
# FOLDER, whole or not at all; JAR must be among it.
fetch_jars() {
    local work try
    command -v mvn >/dev/null || die "Maven is needed once: apt-get install --no-install-recommends maven"
    mkdir -p "$CACHE"
    work=$(mktemp -d "$CACHE/fetch.XXXXXX")
    cat >"$work/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId>
  <artifactId>test-servers</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>$3</dependencies>
</project>
POM
    echo "${0##*/}: ${2%.jar} from Maven Central into $1" >&2
    for try in 1 2 3; do
        if mvn -q -B -Dstyle.color=never -f "$work/pom.xml" \
            org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DincludeScope=runtime \
            -DoutputDirectory="$work/lib" >&2 </dev/null; then
            [[ -e $work/lib/$2 ]] || die "Maven brought no $2"
            mv -T "$work/lib" "$1"
            rm -rf "$work"
            return
        fi
        echo "${0##*/}: Maven failed (try $try of 3)" >&2
    done
    rm -rf "$work"
    die "${2%.jar} could not be fetched from Maven Central"
}
