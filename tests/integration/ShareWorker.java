import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group: bootstrap servers, group and topic. It says of each record what its number says, and prints lines with tabs between
 * words: "got", number, delivery count and time; "accepted" or "unsure", number, delivery count and time. Times are System.nanoTime().
 */
public class ShareWorker {
    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("group.id", words[1]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        settings.put("max.poll.records", "50");
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings)) {
            Thread main = Thread.currentThread();
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                stops = true;
                try {
                    main.join(20_000);
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                }
            }));
            consumer.subscribe(List.of(words[2]));
            while (!stops) {
                try {
                    work(consumer);
                } catch (KafkaException error) {
                    System.err.println(error);
                }
            }
        }
    }

    private static volatile boolean stops = false;

    private static void work(KafkaShareConsumer<String, String> consumer) {
        List<ConsumerRecord<String, String>> accepted = new ArrayList<>();
        boolean isEmpty = true;
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
            isEmpty = false;
            print("got", record);
            AcknowledgeType word = judge(Long.parseLong(record.value()));
            consumer.acknowledge(record, word);
            if (word == AcknowledgeType.ACCEPT) {
                accepted.add(record);
            }
        }
        if (isEmpty) {
            return;
        }
        Map<TopicIdPartition, Optional<KafkaException>> results = Map.of();
        boolean isSure = false;
        try {
            results = consumer.commitSync(Duration.ofSeconds(30));
            isSure = true;
        } catch (KafkaException error) {
            System.err.println(error);
        }
        for (ConsumerRecord<String, String> record : accepted) {
            boolean isRefused = false;
            for (Map.Entry<TopicIdPartition, Optional<KafkaException>> result : results.entrySet()) {
                isRefused |= result.getKey().partition() == record.partition() && result.getValue().isPresent();
            }
            print(isSure && !isRefused ? "accepted" : "unsure", record);
        }
    }

    private static AcknowledgeType judge(long number) {
        if (number % 20 != 7) {
            return AcknowledgeType.ACCEPT;
        }
        return number % 40 == 7 ? AcknowledgeType.REJECT : AcknowledgeType.RELEASE;
    }

    private static void print(String word, ConsumerRecord<String, String> record) {
        String count = record.deliveryCount().map(String::valueOf).orElse("0");
        System.out.println(String.join("\t", word, record.value(), count, String.valueOf(System.nanoTime())));
    }
}
