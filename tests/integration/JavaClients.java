import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Clients in one process: "load" or "refusals", then three words for each: a name, the file of its settings, its topic. "load" writes numbers
 * until a line comes to stdin, and reads them in a group until it is ended; it prints what was read and how many were written. "refusals"
 * tries to write and to read, and prints the errors. Lines are the name, "read", "written" or "failed", and words, with tabs between.
 */
public class JavaClients {
    private static volatile boolean stops = false;

    public static void main(String[] words) throws Exception {
        List<Thread> writers = new ArrayList<>();
        for (int first = 1; first < words.length; first += 3) {
            String name = words[first];
            String topic = words[first + 2];
            Properties settings = settings(words[first + 1], topic);
            if (words[0].equals("load")) {
                writers.add(start(name, () -> write(name, settings, topic)));
                start(name, () -> read(name, settings, topic));
            } else {
                tryTo(name, () -> writeOnce(settings, topic));
                tryTo(name, () -> readOnce(settings, topic));
            }
        }
        if (!writers.isEmpty()) {
            new BufferedReader(new InputStreamReader(System.in)).readLine();
            stops = true;
        }
    }

    private interface Body {
        void run() throws Exception;
    }

    private static Properties settings(String path, String topic) throws Exception {
        Properties settings = new Properties();
        try (FileReader file = new FileReader(path)) {
            settings.load(file);
        }
        settings.put("enable.idempotence", "true");
        settings.put("linger.ms", "0");
        settings.put("buffer.memory", "1000000");
        settings.put("max.block.ms", "60000");
        settings.put("group.id", "java-" + topic);
        settings.put("auto.offset.reset", "earliest");
        return settings;
    }

    private static Thread start(String name, Body body) {
        Thread thread = new Thread(() -> tryTo(name, body));
        thread.start();
        return thread;
    }

    private static void tryTo(String name, Body body) {
        try {
            body.run();
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            tell(name, "failed", cause.toString().replaceAll("\\s+", " "));
        }
    }

    private static synchronized void tell(String... words) {
        System.out.println(String.join("\t", words));
    }

    private static void write(String name, Properties settings, String topic) throws Exception {
        try (var producer = new KafkaProducer<String, String>(settings, new StringSerializer(), new StringSerializer())) {
            int number = 0;
            for (; !stops; number++) {
                producer.send(new ProducerRecord<>(topic, Integer.toString(number)), (made, error) -> {
                    if (error != null) {
                        tell(name, "failed", error.toString());
                    }
                });
                Thread.sleep(10);
            }
            producer.flush();
            tell(name, "written", Integer.toString(number));
        }
    }

    private static void read(String name, Properties settings, String topic) {
        try (var consumer = new KafkaConsumer<String, String>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (true) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(200))) {
                    tell(name, "read", Long.toString(each.offset()), each.value());
                }
            }
        }
    }

    private static void writeOnce(Properties settings, String topic) throws Exception {
        try (var producer = new KafkaProducer<String, String>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, "x")).get(60, TimeUnit.SECONDS);
        }
    }

    private static void readOnce(Properties settings, String topic) {
        try (var consumer = new KafkaConsumer<String, String>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            for (int rounds = 0; rounds < 100; rounds++) {
                consumer.poll(Duration.ofMillis(200));
            }
        }
    }
}
