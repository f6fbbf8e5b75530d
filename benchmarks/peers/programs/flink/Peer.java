import java.util.HashMap;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Flink in Java: words name=value as in programs/__init__.py; api is "sql" or "datastream". */
public final class Peer {
    private Peer() {}

    public static void main(String[] words) throws Exception {
        Map<String, String> task = new HashMap<>();
        for (String word : words) {
            int at = word.indexOf('=');
            task.put(word.substring(0, at), word.substring(at + 1));
        }
        int slots = Integer.parseInt(task.get("slots"));
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createLocalEnvironment(slots, configuration(task, slots));
        if (task.get("api").equals("sql")) {
            SqlPeer.run(env, task);
        } else {
            DataStreamPeer.run(env, task);
        }
    }

    private static Configuration configuration(Map<String, String> task, int slots) {
        String scratch = task.get("scratch");
        Configuration chosen = new Configuration();
        chosen.setString("state.backend.type", task.get("backend"));
        chosen.setString("state.backend.rocksdb.localdir", scratch + "/rocksdb");
        chosen.setString("execution.checkpointing.interval", task.get("checkpoint_s") + " s");
        chosen.setString("execution.checkpointing.storage", "filesystem");
        chosen.setString("execution.checkpointing.dir", "file://" + scratch + "/checkpoints");
        chosen.setString("execution.checkpointing.incremental", "true");
        chosen.setString("io.tmp.dirs", scratch);
        chosen.setString("taskmanager.memory.managed.size", slots * Long.parseLong(task.get("managed_mib")) + " mb");
        chosen.setString("taskmanager.numberOfTaskSlots", String.valueOf(slots));
        // A failure is to be seen, not tried again for ever.
        chosen.setString("restart-strategy.type", "none");
        // No function here keeps a row, so Flink need not copy rows between chained operators.
        chosen.setString("pipeline.object-reuse", "true");
        return chosen;
    }
}
