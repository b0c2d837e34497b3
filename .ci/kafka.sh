# Sourced. Sets `kafka` to 1 where Apache Kafka can be run here, else to 0 (no Java, no Maven, no way to Maven Central:
# told on stderr). Any other failure ends the run.
code=0
.venv/bin/python -m tests.support.kafka --fetch || code=$?
case $code in
    0) kafka=1 ;;
    2 | 69) kafka=0 ;;
    *) exit "$code" ;;
esac

tell_what_kafka_lacks() { # at the end of a run, where it is seen
    if [ "$kafka" = 0 ]; then
        echo "!!!!!!!!!!!!!!!! NOT RUN: make $1 (Apache Kafka cannot run here, see above) !!!!!!!!!!!!!!!!" >&2
    fi
}
