import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;

/**
 * For each line of input the throttle time that follows: "rate|bucket WINDOWS SIZE_MS LIMIT" begins a new one, and "AMOUNT TIME_MS" records. The
 * formulas are those of Kafka's QuotaUtils and ControllerMutationQuotaManager.
 */
public class JavaQuotas {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        MetricConfig config = null;
        double limit = 0;
        Rate rate = null;
        TokenBucket bucket = null;
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words.length == 4) {
                limit = Double.parseDouble(words[3]);
                config = new MetricConfig().samples(Integer.parseInt(words[1])).timeWindow(Long.parseLong(words[2]), TimeUnit.MILLISECONDS)
                    .quota(Quota.upperBound(limit));
                rate = words[0].equals("rate") ? new Rate() : null;
                bucket = rate == null ? new TokenBucket() : null;
                continue;
            }
            double amount = Double.parseDouble(words[0]);
            long now = Long.parseLong(words[1]);
            long throttle = 0;
            if (rate != null) {
                rate.record(config, amount, now);
                double value = rate.measure(config, now);
                if (value > limit) throttle = Math.round((value - limit) / limit * rate.windowSize(config, now));
            } else {
                bucket.record(config, amount, now);
                double value = bucket.measure(config, now);
                if (value < 0) throttle = Math.round(-value / limit * 1000);
            }
            out.append(throttle).append('\n');
        }
        System.out.print(out);
    }
}
