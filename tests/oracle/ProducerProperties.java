import java.util.TreeSet;
import org.apache.kafka.clients.producer.ProducerConfig;

/** Prints the name of every property of Kafka's producer, one a line. */
final class ProducerProperties {
    private ProducerProperties() {}

    public static void main(String[] arguments) {
        new TreeSet<>(ProducerConfig.configNames()).forEach(System.out::println);
    }
}
