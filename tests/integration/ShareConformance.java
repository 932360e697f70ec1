import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.consumer.ShareConsumerTest;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.ClusterConfigProperty;
import org.apache.kafka.common.test.api.ClusterTest;
import org.apache.kafka.common.test.api.ClusterTestDefaults;
import org.apache.kafka.common.test.api.ClusterTests;
import org.apache.kafka.metadata.MetadataCache;

/**
 * Runs methods of Kafka's own ShareConsumerTest against a cluster that runs elsewhere. Lines of words with tabs between them:
 *
 * "list" prints for each method its name, the number of brokers that it needs, and the settings of brokers as NAME=VALUE.
 *
 * "run" reads methods from its input: a name, the bootstrap servers and the brokers' ids, with commas between them. After each it prints "passed"
 * or "failed", the seconds, and why it failed, lines parted by unit separators; before that "stop" or "start" and the id where a broker must be
 * stopped or started, and waits for a line that says it has been.
 */
public class ShareConformance {
    private static final char LINE_END = '\u001f';
    private static final long EMPTY_WITHIN_MS = 30_000;
    private static final PrintStream OUT = System.out;
    private static final BufferedReader IN = new BufferedReader(new InputStreamReader(System.in));

    public static void main(String[] words) throws Exception {
        System.setOut(System.err);
        if (words[0].equals("list")) {
            list();
            System.exit(0);
        }
        for (String line = IN.readLine(); line != null; line = IN.readLine()) {
            String[] task = line.split("\t");
            run(remote(task[1], task[2].split(",")), task[0]);
        }
        System.exit(0);
    }

    private static void run(ClusterInstance cluster, String name) {
        long began = System.nanoTime();
        String reason = null;
        try {
            empty(cluster);
            began = System.nanoTime();
            ShareConsumerTest test = new ShareConsumerTest(cluster);
            test.setup();
            ShareConsumerTest.class.getMethod(name).invoke(test);
        } catch (InvocationTargetException error) {
            reason = described(error.getCause());
        } catch (Throwable error) {
            reason = described(error);
        }
        String seconds = String.format("%.1f", (System.nanoTime() - began) / 1e9);
        say(reason == null ? "passed" : "failed", seconds, reason == null ? "" : reason);
    }

    private static String described(Throwable error) {
        StringWriter text = new StringWriter();
        error.printStackTrace(new PrintWriter(text, true));
        return text.toString().strip().replace('\t', ' ').replace("\r", "").replace('\n', LINE_END);
    }

    private static synchronized void say(String... words) {
        OUT.println(String.join("\t", words));
        OUT.flush();
    }

    /** Have the other side do something to a broker, and wait until it has. */
    private static synchronized void ask(String what, Object broker) throws Exception {
        say(what, String.valueOf(broker));
        IN.readLine();
    }

    private static void list() {
        Map<String, String> ofClass = settings(ShareConsumerTest.class.getAnnotation(ClusterTestDefaults.class).serverProperties());
        for (Method method : new TreeMap<String, Method>(tests()).values()) {
            ClusterTests several = method.getAnnotation(ClusterTests.class);
            ClusterTest needs = several == null ? method.getAnnotation(ClusterTest.class) : several.value()[several.value().length - 1];
            Map<String, String> settings = new TreeMap<>(ofClass);
            settings.putAll(settings(needs.serverProperties()));
            List<String> words = new ArrayList<>(List.of(method.getName(), String.valueOf(Math.max(needs.brokers(), 1))));
            settings.forEach((name, value) -> words.add(name + "=" + value));
            say(words.toArray(new String[0]));
        }
    }

    private static Map<String, Method> tests() {
        Map<String, Method> found = new HashMap<>();
        for (Method method : ShareConsumerTest.class.getMethods()) {
            if (method.isAnnotationPresent(ClusterTest.class) || method.isAnnotationPresent(ClusterTests.class)) {
                found.put(method.getName(), method);
            }
        }
        return found;
    }

    private static Map<String, String> settings(ClusterConfigProperty[] properties) {
        Map<String, String> found = new HashMap<>();
        for (ClusterConfigProperty property : properties) {
            found.put(property.key(), property.value());
        }
        return found;
    }

    private static ClusterInstance remote(String bootstrap, String[] ids) {
        Map<Integer, KafkaBroker> brokers = new TreeMap<>();
        MetadataCache cache = answering(MetadataCache.class, Map.of("getAliveBrokerNodes", List.of(new Node(0, "elsewhere", 1))));
        for (String id : ids) {
            // To await the shutdown is nothing: "stop" has waited for it.
            brokers.put(Integer.valueOf(id), answering(KafkaBroker.class, Map.of("metadataCache", cache, "awaitShutdown", ids)));
        }
        brokers.putIfAbsent(0, brokers.values().iterator().next());  // tests ask the metadata of broker 0, and call a single one 0
        if (ids.length == 1) {
            brokers.keySet().removeIf(id -> id != 0);
        }
        ClusterConfig config = ClusterConfig.defaultBuilder().build();
        InvocationHandler handler = (self, method, arguments) -> {
            switch (method.getName()) {
                case "bootstrapServers": return bootstrap;
                case "brokers": return brokers;
                case "config": return config;
                case "waitForReadyBrokers": return null;
                case "shutdownBroker": ask("stop", arguments[0]); return null;
                case "startBroker": ask("start", arguments[0]); return null;
                default:
                    if (method.isDefault()) return InvocationHandler.invokeDefault(self, method, arguments);
                    throw new UnsupportedOperationException("of a cluster that runs elsewhere: " + method);
            }
        };
        return proxy(ClusterInstance.class, handler);
    }

    private static <T> T answering(Class<T> type, Map<String, Object> answers) {
        return proxy(type, (self, method, arguments) -> {
            if (!answers.containsKey(method.getName())) {
                throw new UnsupportedOperationException("of a broker that runs elsewhere: " + method);
            }
            return method.getReturnType() == void.class ? null : answers.get(method.getName());
        });
    }

    private static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(Proxy.newProxyInstance(ShareConformance.class.getClassLoader(), new Class<?>[] {type}, handler));
    }

    /** Delete all that a method before has left: groups, their settings, and topics. */
    private static void empty(ClusterInstance cluster) throws Exception {
        try (Admin admin = cluster.admin()) {
            long until = System.currentTimeMillis() + EMPTY_WITHIN_MS;
            while (!isEmpty(admin)) {
                if (System.currentTimeMillis() > until) {
                    throw new IllegalStateException("the cluster cannot be emptied");
                }
                Thread.sleep(100);
            }
        }
    }

    private static boolean isEmpty(Admin admin) throws Exception {
        List<String> shared = new ArrayList<>();
        List<String> others = new ArrayList<>();
        for (GroupListing group : admin.listGroups().all().get()) {
            boolean isShared = group.type().map(type -> type.toString().equals("Share")).orElse(false);
            (isShared ? shared : others).add(group.groupId());
        }
        Set<String> topics = admin.listTopics().names().get();
        try {
            admin.deleteShareGroups(shared).all().get();
            admin.deleteConsumerGroups(others).all().get();
            admin.deleteTopics(topics).all().get();
        } catch (ExecutionException error) {
            return false;  // a group has members still, or something is gone already
        }
        Set<ConfigResource.Type> groups = Set.of(ConfigResource.Type.GROUP);
        Map<ConfigResource, java.util.Collection<AlterConfigOp>> resets = new HashMap<>();
        for (ConfigResource group : admin.listConfigResources(groups, new ListConfigResourcesOptions()).all().get()) {
            List<AlterConfigOp> entries = new ArrayList<>();
            for (ConfigEntry entry : admin.describeConfigs(Set.of(group)).all().get().get(group).entries()) {
                if (entry.source() == ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG) {
                    entries.add(new AlterConfigOp(entry, AlterConfigOp.OpType.DELETE));
                }
            }
            if (!entries.isEmpty()) {
                resets.put(group, entries);
            }
        }
        admin.incrementalAlterConfigs(resets).all().get();
        return shared.isEmpty() && others.isEmpty() && topics.isEmpty() && resets.isEmpty();
    }
}
