import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.TableDescriptor;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.types.DataType;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/**
 * The loads by Flink SQL. Rows come from the same numbers as in the DataStream API; SQL computes their columns.
 * Nexmark's queries and the views that they read come as words from flink_nexmark.py.
 */
final class SqlPeer {
    private SqlPeer() {}

    static void run(StreamExecutionEnvironment env, Map<String, String> task) throws Exception {
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.getConfig().setLocalTimeZone(ZoneOffset.UTC);
        if (task.containsKey("mini_batch")) {
            tables.getConfig().set("table.exec.mini-batch.enabled", "true");
            tables.getConfig().set("table.exec.mini-batch.allow-latency", task.get("mini_batch"));
            tables.getConfig().set("table.exec.mini-batch.size", "50000");
        }
        source(env, tables, task);
        Table result = tables.sqlQuery(query(task));
        if (task.containsKey("answers")) {
            write(env, tables, result, task);
            return;
        }
        DataType row = result.getResolvedSchema().toPhysicalRowDataType();
        result.insertInto(TableDescriptor.forConnector("blackhole")
                        .schema(Schema.newBuilder().fromRowDataType(row).build())
                        .build())
                .execute()
                .await();
    }

    private static String query(Map<String, String> task) {
        if (task.containsKey("query")) {
            return task.get("query");
        }
        return task.get("load").equals("session")
                ? sessionQuery(task)
                : "SELECT k, SUM(v) AS total FROM given GROUP BY k";
    }

    private static void source(StreamExecutionEnvironment env, StreamTableEnvironment tables, Map<String, String> task) {
        Schema.Builder schema = Schema.newBuilder().column("f0", "BIGINT NOT NULL");
        String time = "";
        if (task.containsKey("time")) {
            schema.columnByExpression("ts", "TO_TIMESTAMP_LTZ(" + task.get("time").replaceAll("\\bi\\b", "f0") + ", 3)")
                    .watermark("ts", "ts - INTERVAL '" + Long.parseLong(task.get("delay_ms")) / 1000 + "' SECOND");
            time = ", ts";
        }
        tables.createTemporaryView(
                "numbers",
                Rows.numbers(env, Long.parseLong(task.get("rows")), Integer.parseInt(task.get("slots"))),
                schema.build());
        tables.createTemporaryView("counted", tables.sqlQuery("SELECT f0 AS i" + time + " FROM numbers"));
        if (task.containsKey("query")) {
            for (String kind : List.of("persons", "auctions", "bids")) {
                tables.createTemporaryView(kind, tables.sqlQuery(task.get(kind)));
            }
            return;
        }
        tables.createTemporaryView(
                "given",
                tables.sqlQuery(
                        "SELECT " + task.get("key") + " AS k, " + task.get("value") + " AS v" + time + " FROM counted"));
    }

    private static String sessionQuery(Map<String, String> task) {
        return "SELECT k, window_start AS begun, COUNT(*) AS n, SUM(v) AS total"
                + " FROM TABLE(SESSION(TABLE given PARTITION BY k,"
                + " DESCRIPTOR(ts), INTERVAL '" + Long.parseLong(task.get("gap_ms")) / 1000 + "' SECOND))"
                + " GROUP BY k, window_start, window_end";
    }

    /** The changes of the result as lines; what a change withdraws is not an answer. */
    private static void write(
            StreamExecutionEnvironment env, StreamTableEnvironment tables, Table result, Map<String, String> task)
            throws Exception {
        tables.toChangelogStream(result)
                .filter(row -> row.getKind() != RowKind.UPDATE_BEFORE && row.getKind() != RowKind.DELETE)
                .map(SqlPeer::line)
                .returns(Types.STRING)
                .sinkTo(FileSink.forRowFormat(new Path(task.get("answers")), new SimpleStringEncoder<String>())
                        .build());
        env.execute("peer");
    }

    private static String line(Row row) {
        StringBuilder line = new StringBuilder();
        for (int at = 0; at < row.getArity(); at++) {
            Object field = row.getField(at);
            if (field instanceof LocalDateTime) {
                field = ((LocalDateTime) field).toInstant(ZoneOffset.UTC).toEpochMilli();
            }
            line.append(at == 0 ? "" : ",").append(field);
        }
        return line.toString();
    }
}
