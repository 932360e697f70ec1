import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Asks Kafka's own authorizer. Lines of input, with tabs between the words: "new OPEN" begins anew; "acl TYPE NAME PATTERN PRINCIPAL HOST OPERATION
 * PERMISSION" adds a rule; "ask TYPE NAME USER ADDRESS OPERATION" and "any TYPE USER ADDRESS OPERATION" are answered by 1 or 0.
 */
public class JavaAuthorizer {
    record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "CLIENTS"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.SASL_SSL; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return "client"; }
        public int correlationId() { return 0; }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StandardAuthorizer authorizer = null;
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "new":
                    authorizer = new StandardAuthorizer();
                    authorizer.configure(Map.of("super.users", "User:root", "allow.everyone.if.no.acl.found", words[1]));
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), new LinkedHashMap<>()));
                    authorizer.completeInitialLoad();
                    break;
                case "acl":
                    authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(ResourceType.fromCode(code(words[1])), words[2],
                        PatternType.fromCode(code(words[3])), words[4], words[5], AclOperation.fromCode(code(words[6])),
                        AclPermissionType.fromCode(code(words[7]))));
                    break;
                case "ask":
                    ResourcePattern resource = new ResourcePattern(ResourceType.fromCode(code(words[1])), words[2], PatternType.LITERAL);
                    Action action = new Action(AclOperation.fromCode(code(words[5])), resource, 1, true, true);
                    answer(out, authorizer.authorize(context(words[3], words[4]), List.of(action)).get(0));
                    break;
                default:
                    answer(out, authorizer.authorizeByResourceType(context(words[2], words[3]), AclOperation.fromCode(code(words[4])),
                        ResourceType.fromCode(code(words[1]))));
            }
        }
        System.out.print(out);
    }

    private static byte code(String text) {
        return Byte.parseByte(text);
    }

    private static Context context(String user, String address) throws Exception {
        return new Context(new KafkaPrincipal("User", user), InetAddress.getByName(address));
    }

    private static void answer(StringBuilder out, AuthorizationResult result) {
        out.append(result == AuthorizationResult.ALLOWED ? '1' : '0').append('\n');
    }
}
