LOAD ducklake;
LOAD postgres_scanner;
CREATE OR REPLACE TEMPORARY SECRET "my_catalog" (TYPE postgres, HOST 'db.example.com', PORT 5432, DATABASE 'lake', USER 'lake', PASSWORD getenv('PGPASSWORD'), SSLMODE 'require');
CREATE OR REPLACE TEMPORARY SECRET "lakeconf_prod" (TYPE ducklake, METADATA_PATH '', METADATA_SCHEMA 'shop', METADATA_PARAMETERS MAP {'TYPE': 'postgres', 'SECRET': 'my_catalog'}, DATA_PATH '/lake/data/');
ATTACH 'ducklake:lakeconf_prod' AS "prod" (DATA_INLINING_ROW_LIMIT 0);
USE "prod";
