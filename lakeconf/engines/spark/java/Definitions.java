package lakeconf;

import java.lang.invoke.MethodHandles;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.codehaus.commons.compiler.util.resource.MapResourceCreator;
import org.codehaus.commons.compiler.util.resource.MapResourceFinder;
import org.codehaus.commons.compiler.util.resource.Resource;
import org.codehaus.commons.compiler.util.resource.ResourceFinder;
import org.codehaus.janino.ClassLoaderIClassLoader;
import org.codehaus.janino.Compiler;

// Compiles classes and defines them beside one of Spark's classes, in its package: Spark can then load them by name.
public class Definitions {
    private final Class neighbour;
    private final MapResourceFinder sources = new MapResourceFinder();

    public Definitions(Object neighbour) { this.neighbour = (Class) neighbour; }

    public void add(String name, String source) { sources.addResource(name, source); }

    // The code of each class, by the name of its file.
    public Map compile() throws Exception {
        HashMap codes = new HashMap();
        Compiler compiler = new Compiler(ResourceFinder.EMPTY_RESOURCE_FINDER,
            new ClassLoaderIClassLoader(neighbour.getClassLoader()));
        compiler.setClassFileCreator(new MapResourceCreator(codes));
        compiler.compile((Resource[]) sources.resources().toArray(new Resource[0]));
        return codes;
    }

    public void define() throws Exception {
        Map codes = compile();
        MethodHandles.Lookup lookup = MethodHandles.privateLookupIn(neighbour, MethodHandles.lookup());
        // Classes refer to each other. Java defines one only after the class that it extends, and may define it before it
        // notices that others are missing.
        for (int before = -1; !codes.isEmpty() && codes.size() != before;) {
            before = codes.size();
            for (Iterator each = codes.entrySet().iterator(); each.hasNext();) {
                Map.Entry entry = (Map.Entry) each.next();
                try {
                    lookup.defineClass((byte[]) entry.getValue());
                } catch (LinkageError error) {
                    if (!isDefined((String) entry.getKey())) continue;
                }
                each.remove();
            }
        }
        if (!codes.isEmpty()) throw new IllegalStateException("lakeconf: Java cannot define " + codes.keySet());
    }

    private boolean isDefined(String file) {
        try {
            Class.forName(file.substring(0, file.length() - ".class".length()).replace('/', '.'), false,
                neighbour.getClassLoader());
            return true;
        } catch (ClassNotFoundException error) {
            return false;
        }
    }
}
