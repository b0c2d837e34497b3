import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Says a small session: java -cp "jars/*:." Produce localhost:9092 eunoe.conversations mina-and-jonas */
public class Produce {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 3) {
            System.err.println("usage: java -cp \"jars/*:.\" Produce BOOTSTRAP TOPIC CONVERSATION");
            System.exit(2);
        }
        String topic = arguments[1];
        String conversationId = arguments[2];
        String sessionId = UUID.randomUUID().toString();
        Properties settings = new Properties(); // the defaults are right: murmur2, acks=all, idempotence
        settings.put("bootstrap.servers", arguments[0]);

        List<Map<String, Object>> events = List.of(
            said(sessionId, "Mina", "Did you survive the football match? ⚽"),
            said(sessionId, "Jonas", "Barely. I twisted my knee and see a doctor on Monday."),
            said(sessionId, "Mina", "빨리 나아!"),
            Map.of("type", "session_ended", "session_id", sessionId));
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (Map<String, Object> event : events) {
                sent.add(producer.send(record(topic, conversationId, event)));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get(); // throws where the broker does not have the event
            }
        }
    }

    private static Map<String, Object> said(String sessionId, String speaker, String text) {
        String id = UUID.randomUUID().toString();
        return Map.of("type", "utterance", "utterance_id", id, "session_id", sessionId, "speaker", speaker, "text", text);
    }

    /** The event with its conversation, its time and its key; the broker sets the time of the record. */
    private static ProducerRecord<String, byte[]> record(String topic, String conversationId, Map<String, Object> event)
        throws JsonProcessingException {
        Map<String, Object> whole = new HashMap<>(event);
        whole.put("conversation_id", conversationId);
        whole.put("at", Instant.now().truncatedTo(ChronoUnit.MILLIS).toString());
        return new ProducerRecord<>(topic, "default/" + percentEncoded(conversationId), JSON.writeValueAsBytes(whole));
    }

    /** Letters, digits and -._~ stay; URLEncoder is made for forms and does three characters otherwise. */
    private static String percentEncoded(String text) {
        String form = URLEncoder.encode(text, StandardCharsets.UTF_8);
        return form.replace("+", "%20").replace("*", "%2A").replace("%7E", "~");
    }
}
