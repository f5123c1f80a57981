package org.apache.spark.sql.connector.catalog;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

// A name of a table in a text, read as Spark reads it in a query.
public class LakeName {
    private final String text;
    final CatalogPlugin catalog;
    private final List parts = new ArrayList();

    // Names without a catalog are in the one that is given, or if it is null in the current one.
    LakeName(SparkSession session, String text, CatalogPlugin owner) {
        this.text = text;
        CatalogManager manager = session.sessionState().catalogManager();
        for (Iterator each = parsed(session, text).iterator(); each.hasNext();) parts.add(each.next());
        CatalogPlugin current = manager.currentCatalog();
        boolean hasCatalog = parts.size() > 1 && manager.isCatalogRegistered((String) parts.get(0));
        this.catalog = hasCatalog ? manager.catalog((String) parts.remove(0)) : owner == null ? current : owner;
        String[] namespace = catalog == current ? manager.currentNamespace() : new String[0];
        if (parts.size() == 1 && !hasCatalog && namespace.length == 1) parts.add(0, namespace[0]);
        if (parts.size() == 1) parts.add(0, "main");
    }

    private static Seq parsed(SparkSession session, String text) {
        try {
            return session.sessionState().sqlParser().parseMultipartIdentifier(text);
        } catch (ParseException error) {
            throw LakeServer.raised("SchemaError: '" + text + "' is not the name of a table"
                + "\n  hint: write `schema`.`table`, with backquotes around names with other characters");
        }
    }

    // The schema and the name of a table of a catalog.
    Identifier identifier(CatalogPlugin owner) {
        if (catalog != owner) {
            throw LakeServer.raised("SchemaError: " + text + " is not a table of " + owner.name()
                + "\n  hint: name a table of this catalog, as in 'schema.table'");
        }
        if (parts.size() != 2) throw LakeServer.raised("SchemaError: the name of a table has one schema, and not " + text);
        return new IdentifierImpl(new String[] {(String) parts.get(0)}, (String) parts.get(1));
    }
}
